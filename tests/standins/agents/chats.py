"""Says so many short lines, each by itself."""

import sys

for number in range(int(sys.argv[1])):
    print(number, flush=True)
