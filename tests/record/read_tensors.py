"""Reads a file in the safetensors layout with nothing but Python's own json and struct, as a stranger would.

Prints one line for each text and each tensor, after checking offsets and the hash; any surprise is an exception.
"""
import hashlib
import json
import math
import struct
import sys

raw = open(sys.argv[1], "rb").read()
(length,) = struct.unpack_from("<Q", raw)
head, data = raw[8 : 8 + length], raw[8 + length :]
header = json.loads(head)
texts = header.pop("__metadata__")

assert length % 8 == 0 and len(head) == length and head[:1] == b"{"
digits = texts["sha256"]
assert head.count(digits.encode()) == 1
assert hashlib.sha256(raw.replace(digits.encode(), b"0" * 64, 1)).hexdigest() == digits

for key in sorted(texts):
    if key != "sha256":
        print(f"{key}={texts[key]}")
end = 0
for name, entry in header.items():
    begin, stop = entry["data_offsets"]
    assert entry["dtype"] == "F32" and begin == end and stop - begin == 4 * math.prod(entry["shape"])
    floats = struct.unpack_from(f"<{(stop - begin) // 4}f", data, begin)
    print(name, entry["shape"], " ".join(f"{x:g}" for x in floats))
    end = stop
assert end == len(data)
