#include "driftbound/trace/arithmetic.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <tuple>
#include <utility>

#include "driftbound/num/elementary.hpp"
#include "driftbound/num/errors.hpp"
#include "model/text.hpp"
#include "trace/trace_parse.hpp"

namespace driftbound {
namespace {

constexpr std::string_view fma_suffix = "+fma";

struct NamedArithmetic {
  std::string_view name;
  FormatId operands;  ///< of matrix products
  FormatId others;    ///< sums, products, every other op and every stored result
};

constexpr std::array<NamedArithmetic, 7> cpu_arithmetics = {{{"fp64", FormatId::fp64, FormatId::fp64},
                                                             {"fp32", FormatId::fp32, FormatId::fp32},
                                                             {"tf32", FormatId::tf32, FormatId::fp32},
                                                             {"bf16", FormatId::bf16, FormatId::fp32},
                                                             {"fp16", FormatId::fp16, FormatId::fp32},
                                                             {"fp8_e4m3", FormatId::fp8_e4m3, FormatId::fp32},
                                                             {"fp8_e5m2", FormatId::fp8_e5m2, FormatId::fp32}}};

constexpr std::array<std::string_view, 16> functions_of_the_ops = {
    "exp", "expm1", "log",  "log1p", "tanh", "sigmoid", "softplus", "sin",
    "cos", "erf",   "sqrt", "tan",   "atan", "sinh",    "cosh",     "pow"};

/// MPFR rounds every function correctly: half an ulp, which is u |f(x)| + eta.
std::vector<FunctionAccuracy> correctly_rounded_functions() {
  std::vector<FunctionAccuracy> table;
  for (const std::string_view function : functions_of_the_ops) {
    table.push_back({std::string(function), 1.0, Evidence::documented, "MPFR, correctly rounded"});
  }
  return table;
}

/// Accuracies measured over all inputs; the square root is the processor's own.
std::vector<FunctionAccuracy> own_float32_functions() {
  std::vector<FunctionAccuracy> table;
  for (const ElementaryAccuracy& entry : own_float32_accuracy()) {
    table.push_back({std::string(entry.function), entry.units, Evidence::measured, std::string(entry.evidence)});
  }
  table.push_back({"sqrt", 1.0, Evidence::documented, "IEEE 754, correctly rounded"});
  return table;
}

std::int64_t parse_parameter(std::string_view text, std::string_view whole) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1) {
    throw InvalidArgument("summation order " + in_quotes(whole) +
                          ": the number after ':' must be an integer of at least 1");
  }
  return value;
}

constexpr std::string_view slices_prefix = "slices:", balanced_prefix = "balanced:", lanes_prefix = "lanes:",
                           cascade_prefix = "cascade:", halved_name = "halved", last_suffix = ":last",
                           sum_suffix = ":sum", front_suffix = ":front";

/// ":8", ":8:last" or ":8:sum"
std::string rest_text(const Dealing& dealing) {
  if (dealing.multiple == 1) return "";
  const std::string text = ":" + std::to_string(dealing.multiple);
  if (dealing.rest == Dealing::Rest::in_part) return text;
  return text + std::string(dealing.rest == Dealing::Rest::one_by_one ? last_suffix : sum_suffix);
}

std::string dealt_text(const Dealing& dealing, Combination combination) {
  std::string text;
  switch (dealing.kind) {
    case Dealing::Kind::contiguous:
      text = std::string(slices_prefix) + std::to_string(dealing.run) + rest_text(dealing);
      break;
    case Dealing::Kind::balanced:
      text = std::string(balanced_prefix) + std::to_string(dealing.run) + ":" + std::to_string(dealing.multiple);
      break;
    case Dealing::Kind::interleaved:
      text = std::string(lanes_prefix) + std::to_string(dealing.parts) + "x" + std::to_string(dealing.run);
      text += rest_text(dealing) + (dealing.short_first ? std::string(front_suffix) : "");
      break;
  }
  return combination == Combination::sequential ? text : text + "/" + std::string(name_of(combination));
}

std::string dealt_text(const SumParts& parts) {
  if (parts.tree == SumTree::halved) return std::string(halved_name);
  if (parts.tree == SumTree::cascade)
    return std::string(cascade_prefix) + std::to_string(parts.lanes) + "x" + std::to_string(parts.chains);
  const std::string text = dealt_text(parts.dealing, parts.combination);
  return parts.inside == Dealing{} ? text : text + "/" + dealt_text(parts.inside, parts.inside_combination);
}

/// Two numbers with a sign between them.
std::pair<std::int64_t, std::int64_t> parse_two(std::string_view text, char sign, std::string_view whole) {
  const std::size_t at = text.find(sign);
  if (at == std::string_view::npos)
    throw InvalidArgument("summation order " + in_quotes(whole) + ": two numbers with '" + sign + "' between them");
  return {parse_parameter(text.substr(0, at), whole), parse_parameter(text.substr(at + 1), whole)};
}

/// `text` without what it says of the rest, which is set.
std::string_view without_rest(std::string_view text, std::string_view whole, Dealing& dealing) {
  for (const auto& [suffix, rest] :
       {std::pair(last_suffix, Dealing::Rest::one_by_one), std::pair(sum_suffix, Dealing::Rest::together)}) {
    if (!text.ends_with(suffix)) continue;
    dealing.rest = rest;
    text.remove_suffix(suffix.size());
  }
  const std::size_t behind = text.find(':');
  if (behind == std::string_view::npos) {
    if (dealing.rest == Dealing::Rest::in_part) return text;
    throw InvalidArgument("summation order " + in_quotes(whole) +
                          ": a rest is what lies behind a multiple, as :8:last");
  }
  dealing.multiple = parse_parameter(text.substr(behind + 1), whole);
  return text.substr(0, behind);
}

/// The dealing that `text` names; empty: none.
std::optional<Dealing> parse_dealing(std::string_view text, std::string_view whole) {
  Dealing dealing;
  if (text.starts_with(slices_prefix)) {
    text = without_rest(text.substr(slices_prefix.size()), whole, dealing);
    dealing.run = parse_parameter(text, whole);
  } else if (text.starts_with(balanced_prefix)) {
    dealing.kind = Dealing::Kind::balanced;
    std::tie(dealing.run, dealing.multiple) = parse_two(text.substr(balanced_prefix.size()), ':', whole);
  } else if (text.starts_with(lanes_prefix)) {
    dealing.kind = Dealing::Kind::interleaved;
    text.remove_prefix(lanes_prefix.size());
    dealing.short_first = text.ends_with(front_suffix);
    if (dealing.short_first) text.remove_suffix(front_suffix.size());
    text = without_rest(text, whole, dealing);
    std::tie(dealing.parts, dealing.run) = parse_two(text, 'x', whole);
  } else {
    return std::nullopt;
  }
  return dealing;
}

/// Whether `kind` names a dealt order, which is then set: "DEALING", "/neighbours" or "/halves" or neither, and the same
/// once more for parts within parts.
bool parse_dealt(std::string_view kind, std::string_view whole, SummationOrder& order) {
  std::vector<std::string_view> words;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = kind.find('/');
    words.push_back(kind.substr(0, end));
    if (end != std::string_view::npos) kind.remove_prefix(end + 1);
  }
  std::size_t next = 0;
  const auto take = [&](Dealing& dealing, Combination& combination) {
    if (next == words.size()) return true;
    const std::optional<Dealing> found = parse_dealing(words[next++], whole);
    if (!found) return false;
    dealing = *found;
    for (const Combination one : {Combination::neighbours, Combination::halves, Combination::fours}) {
      if (next == words.size() || words[next] != name_of(one)) continue;
      combination = one;
      ++next;
    }
    return true;
  };
  SumParts& parts = order.parts;
  if (words.size() == 1 && (words[0] == halved_name || words[0].starts_with(cascade_prefix))) {
    parts.tree = words[0] == halved_name ? SumTree::halved : SumTree::cascade;
    if (parts.tree == SumTree::cascade)
      std::tie(parts.lanes, parts.chains) = parse_two(words[0].substr(cascade_prefix.size()), 'x', whole);
    order.kind = SummationOrder::Kind::dealt;
    return true;
  }
  if (!take(parts.dealing, parts.combination) || !take(parts.inside, parts.inside_combination) || next < words.size())
    return false;
  order.kind = SummationOrder::Kind::dealt;
  return true;
}

}  // namespace

std::string_view name_of(Evidence evidence) {
  switch (evidence) {
    case Evidence::documented:
      return "documented";
    case Evidence::measured:
      return "measured";
    case Evidence::assumed:
      return "assumed";
  }
  return "assumed";
}

std::string to_string(const SummationOrder& order) {
  const auto kind = [&]() -> std::string {
    switch (order.kind) {
      case SummationOrder::Kind::sequential:
        return "sequential";
      case SummationOrder::Kind::pairwise:
        return "pairwise";
      case SummationOrder::Kind::blocked:
        return "blocked:" + std::to_string(order.parameter);
      case SummationOrder::Kind::split_k:
        return "split-k:" + std::to_string(order.parameter);
      case SummationOrder::Kind::height:
        return "height:" + std::to_string(order.parameter);
      case SummationOrder::Kind::dealt:
        return dealt_text(order.parts);
      case SummationOrder::Kind::unknown:
        break;
    }
    return "unknown";
  };
  return kind() + std::string(order.fma ? fma_suffix : "");
}

SummationOrder parse_summation_order(std::string_view text) {
  SummationOrder order;
  std::string_view kind = text;
  if (kind.ends_with(fma_suffix)) {
    order.fma = true;
    kind.remove_suffix(fma_suffix.size());
  }
  constexpr std::string_view blocked = "blocked:";
  constexpr std::string_view split_k = "split-k:";
  constexpr std::string_view height = "height:";
  if (kind == "unknown") {
    order.kind = SummationOrder::Kind::unknown;
  } else if (kind == "sequential") {
    order.kind = SummationOrder::Kind::sequential;
  } else if (kind == "pairwise") {
    order.kind = SummationOrder::Kind::pairwise;
  } else if (kind.starts_with(blocked)) {
    order.kind = SummationOrder::Kind::blocked;
    order.parameter = parse_parameter(kind.substr(blocked.size()), text);
  } else if (kind.starts_with(split_k)) {
    order.kind = SummationOrder::Kind::split_k;
    order.parameter = parse_parameter(kind.substr(split_k.size()), text);
  } else if (kind.starts_with(height)) {
    order.kind = SummationOrder::Kind::height;
    order.parameter = parse_parameter(kind.substr(height.size()), text);
  } else if (!parse_dealt(kind, text, order)) {
    throw InvalidArgument("no summation order " + in_quotes(text) +
                          "; there are: sequential, pairwise, blocked:B, split-k:S, height:H, slices:R, balanced:R:M, "
                          "lanes:PxR (these also with :M, :M:last or :M:sum for a rest, /neighbours, /halves or "
                          "/fours, and another of them "
                          "behind '/' for parts within parts), halved, cascade:LxC, unknown, each also with +fma");
  }
  return order;
}

std::vector<std::int64_t> chain_lengths(const SummationOrder& order, std::int64_t n) {
  if (n <= 0) return {};
  std::int64_t length = 0;
  switch (order.kind) {
    case SummationOrder::Kind::unknown:
    case SummationOrder::Kind::pairwise:
    case SummationOrder::Kind::height:
    case SummationOrder::Kind::dealt:
      return {};
    case SummationOrder::Kind::sequential:
      length = n;
      break;
    case SummationOrder::Kind::blocked:
      length = order.parameter;
      break;
    case SummationOrder::Kind::split_k:
      length = n / order.parameter + (n % order.parameter != 0 ? 1 : 0);
      break;
  }
  std::vector<std::int64_t> lengths;
  for (std::int64_t done = 0; done < n; done += lengths.back()) lengths.push_back(std::min(length, n - done));
  return lengths;
}

bool names_function(std::string_view name) {
  const auto is_it = [&](std::string_view known) { return known == name; };
  if (std::any_of(functions_of_the_ops.begin(), functions_of_the_ops.end(), is_it)) return true;
  const auto& own = own_float32_accuracy();
  return std::any_of(own.begin(), own.end(), [&](const ElementaryAccuracy& entry) { return is_it(entry.function); });
}

const FunctionAccuracy& ArithmeticModel::accuracy(std::string_view function) const {
  for (const FunctionAccuracy& entry : functions) {
    if (entry.function == function) return entry;
  }
  throw Unsupported("arithmetic " + in_quotes(name) + " states no accuracy for the function " + in_quotes(function) +
                    "; add it to \"functions\" of the arithmetic, in the trace or in the file that describes it");
}

FormatId stored_format(const ArithmeticModel& arithmetic, ElementType declared) {
  const std::optional<FormatId> own = float_format(declared);
  if (!own) return arithmetic.accumulator;
  const bool is_narrower = !holds_all_of(format(*own), format(arithmetic.output));
  return arithmetic.stores_declared_types && is_narrower ? *own : arithmetic.output;
}

ArithmeticModel cpu_arithmetic(std::string_view name, const SummationOrder& order) {
  const auto found = std::find_if(cpu_arithmetics.begin(), cpu_arithmetics.end(),
                                  [&](const NamedArithmetic& entry) { return entry.name == name; });
  if (found == cpu_arithmetics.end()) {
    std::string names;
    for (const NamedArithmetic& entry : cpu_arithmetics) names += (names.empty() ? "" : ", ") + std::string(entry.name);
    throw InvalidArgument("no arithmetic " + in_quotes(name) + "; there are: " + names);
  }
  ArithmeticModel arithmetic;
  arithmetic.name = found->name;
  arithmetic.input = found->operands;
  arithmetic.accumulator = found->others;
  arithmetic.output = found->others;
  arithmetic.order = order;
  arithmetic.functions = found->others == FormatId::fp64 ? correctly_rounded_functions() : own_float32_functions();
  arithmetic.evidence = Evidence::documented;
  arithmetic.source = "driftbound CPU evaluator";
  return arithmetic;
}

}  // namespace driftbound
