"""The language of Google's `generateContent`: whole calls as objects, thoughts and signatures on parts."""
