#pragma once

#include <cstdint>
#include <functional>

namespace driftbound {

/// Calls f(first, last) on consecutive ranges that together cover [0, count), one range a thread, and
/// waits for all of them. The calling thread takes the first range.
/// Domain:    count >= 0; threads >= 1 (no more threads start than there are items)
/// Throws:    UnsoundEnvironment where a thread's floating-point environment is unsound; what f threw,
///            from the lowest range that threw; InvalidArgument for fewer than one thread
void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t, std::int64_t)>& f);

}  // namespace driftbound
