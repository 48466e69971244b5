#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace driftbound::analysis {

/// One decimal and an exponent without padding: "1.2e-7".
std::string error_text(double x);
/// The decimal number of so many digits next to x that is not below it (but for rounding of the number shown).
double decimal_above(double x, int digits);
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
/// The first `most` of some names: "'a', 'b' and 3 more"
std::string list_of(const std::vector<std::string>& names, std::size_t most = 6);
/// Broken at spaces into lines of at most `width` characters; lines that this begins are indented by `indent` spaces.
std::string wrap(const std::string& text, std::size_t width, std::size_t indent = 0);

}  // namespace driftbound::analysis
