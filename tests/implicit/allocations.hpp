#pragma once

#include <cstddef>

/// How often this thread has called `new` so far; the program's `new` and `delete` are those of allocations.cpp.
std::size_t allocations();
