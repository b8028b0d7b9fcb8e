"""An adversary played on what machines really send, counted against what is promised.

`attack` says what every attack is and how its success is counted, the others are one
attack each; `auditing` plays them, beside controls that must come out as they must.
"""
