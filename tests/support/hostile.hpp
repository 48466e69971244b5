#pragma once

#include "driftbound/num/errors.hpp"

namespace driftbound::test {

/// Whether a reader copes with a file: it refuses it with an error of the library, or its result passes.
/// Any other exception leaves the test case and fails it.
template <class Reader>
bool refuses_or(Reader reader) {
  try {
    return reader();
  } catch (const Error&) {
    return true;
  }
}

}  // namespace driftbound::test
