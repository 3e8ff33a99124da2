"""Who answers: implementations of one port, over HTTP or within this process."""
