#pragma once

#include <string>
#include <string_view>

#include "analysis/comparison.hpp"

namespace driftbound::analysis {

/// Colours text for a terminal, or leaves it as it is.
struct Painter {
  bool colour;
  std::string operator()(const std::string& text, const char* with) const;
};

/// The escape sequence of a verdict's colour, and its mark in tables: "ok", "near", "open", "void", "FAIL", "-".
const char* colour_of(Status status);
const char* mark_of(Status status);

/// "any run at every point of -1:1,0:2: error at most 1.2e-6 in order pairwise (proven, T-77), value between -0.3 and
/// 0.7; 67 % of that bound is the size of the box: smaller boxes are tighter"
std::string describe(const BoxSummary& box);

/// What a probabilistic bound stands on: "if rounding errors have mean 0", "over random bits of this program".
std::string_view model_of(const BoundSummary& bound);

/// "not certifiable in this arithmetic: 3 of 40 values"
std::string not_certifiable_text(const BoundSummary& bound);

/// "the sign of every run (rounded-shadow): right in 95, wrong in 1, open in 4 samples"
std::string signs_text(const SignCounts& signs);

/// The question that a bound answers: "this run", "any run".
std::string_view words_of(Question question);

/// One decimal and an exponent without padding: "1.2e-7".
std::string error_text(double x);
/// The decimal number of so many digits next to x that is not below it (but for rounding of the number shown).
double decimal_above(double x, int digits);
/// Why an output has no error: nothing computes it, or no value is finite.
std::string why_without_error(const OutputSummary& output);
/// "2.824e-6 against 2.816e-6": an error and the bound that it exceeds, with as many digits as that takes.
std::string excess_text(double error, double bound);
/// error_text() of an upper bound: rounded up.
std::string bound_text(double x);
/// Few significant characters: "0", "1.2e-7", "0.41", "37", "1.2e5".
std::string brief(double x);

/// A share of a bound, what is next to nothing as "<0.01%".
std::string percent(double share);

/// Characters of UTF-8 text.
std::size_t columns_of(const std::string& text);
/// At most `width` characters, the middle left out.
std::string shorten(const std::string& name, std::size_t width);
/// Broken at spaces into lines of at most `width` characters; those after the first begin with `indent` spaces.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent = 0);

}  // namespace driftbound::analysis
