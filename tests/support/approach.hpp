#pragma once

#include <doctest/doctest.h>

/// How near errors come to the bounds of docs/theory.md. A test names the theorem and the closest approach that it has
/// been seen to reach, so that a bound that gets looser is noticed as one that gets too small is; tests/structure asks
/// for such a test of every theorem.
namespace checks {

/// No error is beyond the bound, and the bound is at most 1.1 times as far from the errors as recorded.
inline bool approach_holds(double measured, double recorded) {
  return measured <= 1.0 && 1.1 * measured >= recorded;
}

}  // namespace checks

/// The largest error / bound of a test against the one recorded.
#define CHECK_APPROACH(theorem, measured, recorded)                                                      \
  CHECK_MESSAGE(checks::approach_holds((measured), (recorded)), theorem, ": error / bound ", (measured), \
                ", recorded ", (recorded))

/// The theorem of a row in a table of cases, each of which CHECK_APPROACH holds.
#define OF_THEOREM(theorem) theorem

/// A statement that leaves no room: the result is the one number that the theorem names.
#define CHECK_EXACT(theorem, statement) CHECK_MESSAGE((statement), theorem)
