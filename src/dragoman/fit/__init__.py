"""Makes a request fit its target, and a reply fit the client again.

Every pass is pure and driven by the facts of a `Target`. A request that needs no change stays the very same
object; what cannot arrive as it was sent is a recorded loss.
"""

from dragoman.fit.passes import PASSES, fit
from dragoman.fit.reply import ClientTraits, reply_stages
from dragoman.fit.restoration import Restoration, restoration

__all__ = ["PASSES", "ClientTraits", "Restoration", "fit", "reply_stages", "restoration"]
