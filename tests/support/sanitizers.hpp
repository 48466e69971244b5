#pragma once

namespace driftbound::test {

extern "C" [[gnu::weak]] void __asan_init();  // NOLINT(bugprone-reserved-identifier): linked with the address sanitizer

/// Whether the program runs under the sanitizers, however this file was compiled.
inline bool under_sanitizers() {
  return &__asan_init != nullptr;
}

}  // namespace driftbound::test
