"""Says things that are neither text nor JSON, to both streams."""

import os

os.write(1, bytes(range(256)) * 64 + b"\n\xff\xfe\x00\n")
os.write(2, b'{"half": "js\x00\xff')
