#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analysis/report_parts.hpp"
#include "analysis/text.hpp"

namespace driftbound::analysis {
namespace {

/// A layer's name in a sentence.
std::string named(const std::string& name) {
  return "'" + shorten(name, 40) + "'";
}

}  // namespace

std::string reference_text(const Comparison& comparison) {
  std::string rungs;
  for (const auto& [bits, count] : comparison.rungs)
    rungs += fmt::format("{}{} at {} bits", rungs.empty() ? "" : ", ", count, bits);
  std::string text = fmt::format("Reference: certified balls ({})", rungs);
  const std::int64_t valueless = std::max(comparison.reference_valueless, comparison.reference_undefined);
  const std::int64_t open = comparison.reference_undecided - valueless - comparison.reference_too_fine;
  if (open > 0) text += fmt::format("; {} not resolved at the limit (--max-precision raises it)", open);
  if (comparison.reference_too_fine > 0)
    text += fmt::format("; {} known to all digits that two doubles hold", comparison.reference_too_fine);
  if (const std::int64_t undefined = valueless - comparison.reference_undefined; undefined > 0)
    text += fmt::format("; {} without a value (division by 0, root or logarithm of a negative number, overflow)",
                        undefined);
  if (comparison.reference_undefined > 0)
    text += fmt::format("; {} without an exact value: operands are not finite", comparison.reference_undefined);
  return text + ".";
}

namespace {

struct Culprit {
  std::string what;  ///< "layer 'head' (Gemm)"
  const BoundSummary* bound = nullptr;
  std::string_view scope;
  const NearestReading* reading = nullptr;  ///< of the layer's operands, where that is decisive
};

const NearestReading* decisive_reading(const LayerSummary* layer) {
  const bool is_decisive = layer && layer->nearest_reading && layer->nearest_reading->is_decisive;
  return is_decisive ? &*layer->nearest_reading : nullptr;
}

std::string_view in_words(Scope scope) {
  return scope == Scope::end_to_end ? "end-to-end" : name_of(scope);
}

/// First layer, in graph order, whose verdict is the report's, and the bound behind it; an output where no layer has it.
Culprit find_culprit(const Comparison& comparison) {
  for (const ScopeOf& one : scopes_of(comparison)) {
    if (one.status() != comparison.verdict) continue;
    const std::string what = one.layer ? fmt::format("layer {} ({})", named(one.layer->name), one.layer->op)
                                       : fmt::format("output {}", named(one.output->name));
    const auto is_behind = [&](const BoundSummary& bound) {
      if (comparison.verdict == Status::improbable) return bound.is_improbable();
      return bound.gives_verdict() && (comparison.verdict == Status::violated ? bound.violations : bound.undecided) > 0;
    };
    for (const BoundSummary& bound : one.summary.bounds)
      if (is_behind(bound)) return {what, &bound, in_words(one.scope), decisive_reading(one.layer)};
    if (comparison.verdict == Status::improbable && decisive_reading(one.layer))
      return {what, nullptr, {}, decisive_reading(one.layer)};
  }
  return {};
}

/// What is known about the layer that comes closest: how long its sums are and how much cancels in them, or over
/// how many layers errors have added up.
std::string why_close(const Comparison& comparison) {
  constexpr std::int64_t short_sum = 8;
  constexpr double far = 1e-3, close = 0.1;
  if (comparison.closest->utilisation == 0.0) return "";
  if (comparison.closest->utilisation < far) return "; the run is far more accurate than what is declared";
  if (comparison.closest->utilisation < close) return "";
  for (const LayerSummary& layer : comparison.layers) {
    if (layer.name != comparison.closest->layer) continue;
    if (comparison.closest->scope != Scope::local)
      return fmt::format(" (layer {} of {})", layer.index + 1, comparison.layers.size());
    if (layer.fan_in == 0) return "";
    const std::string sums = fmt::format("sums of n = {} products", layer.fan_in);
    if (layer.fan_in <= short_sum) return "; its " + sums + " have few roundings that could cancel";
    return layer.kappa ? fmt::format("; {}, median kappa {}", sums, brief(layer.kappa->median)) : "; " + sums;
  }
  return "";
}

/// ", and on 1 of 2 end-to-end numbers", where nothing else is checked.
std::string checked_from_end_to_end(const Comparison& comparison) {
  const auto is_checked = [](const OutputSummary& output) { return output.status != Status::not_checked; };
  const auto count = std::count_if(comparison.outputs.begin(), comparison.outputs.end(), is_checked);
  return fmt::format(", and on {} of {} end-to-end numbers", count, comparison.outputs.size());
}

/// "10 of 650 outputs of 9 layers (5 samples); 8 layers not checked"
std::string checked_outputs(const Comparison& comparison) {
  std::int64_t checked = 0, compared = 0, layers = 0;
  for (const LayerSummary& layer : comparison.layers) {
    checked += layer.checked;
    compared += layer.compared;
    layers += layer.status == Status::not_checked ? 1 : 0;
  }
  const std::string share = checked < compared ? fmt::format("{} of ", checked) : "";
  const std::string rest = layers > 0 ? fmt::format("; {} layer{} not checked", layers, layers == 1 ? "" : "s") : "";
  const auto counted = [](auto count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  if (comparison.run)
    return fmt::format("{}{} of {}{}", share, counted(compared, "output"),
                       counted(comparison.layers.size(), "recorded result"), rest);
  return fmt::format("{}{} of {} ({}){}{}", share, counted(compared, "output"),
                     counted(comparison.layers.size(), "layer"), counted(comparison.samples, "sample"),
                     checked == 0 ? checked_from_end_to_end(comparison) : "", rest);
}

/// Whether a bound speaks of the declared order alone.
bool stands_on_order(BoundKind bound) {
  return bound == BoundKind::running || bound == BoundKind::order_aware || bound == BoundKind::adjoint_order_aware ||
         bound == BoundKind::replay;
}

/// Whether another program may have handed results on that it did not round as it stores them.
bool may_skip_storing(const ReportContext& context) {
  return stores_narrowly(context.arithmetic) && !context.provenance.program.starts_with("driftbound ");
}

/// What rounding cannot explain. Fast convolutions compute the same function by sums of other terms.
std::string_view what_else(const Culprit& culprit, bool may_skip_storing) {
  if (culprit.what.find("(Conv") != std::string::npos)
    return "another algorithm for convolutions (Winograd and FFT obey none of these bounds: docs/assumptions.md), "
           "another arithmetic, another model, or a bug";
  if (may_skip_storing)
    return "numbers handed on to the next op that were not rounded as they are stored (A-09 in docs/assumptions.md), "
           "another arithmetic, another model, or a bug";
  return "another arithmetic, another model, or a bug";
}

/// "layer 'b' (Gemm) exceeds its local running bound in 3 of 64 values, worst at sample 1 element 2: error …"
std::string excess_sentence(const Culprit& culprit) {
  std::string where;
  if (const auto& worst = culprit.bound->worst)
    where = fmt::format(", worst at sample {} element {}: error {}", worst->sample, worst->element,
                        excess_text(worst->error, worst->bound));
  return fmt::format("{} exceeds its {} {} bound in {} of {} values{}", culprit.what, culprit.scope,
                     name_of(culprit.bound->kind), culprit.bound->violations, culprit.bound->checked, where);
}

/// " Nearest reading: operands read as tf32 (cut), 2,400 times nearer than as it is.", where that is known.
std::string explaining_reading(const Culprit& culprit) {
  return culprit.reading ? fmt::format(" Nearest reading: {}.", describe(*culprit.reading)) : "";
}

std::string violated_sentence(const Report& report) {
  const Comparison& comparison = report.comparison;
  for (const LayerSummary& layer : comparison.layers) {
    if (layer.status != Status::violated) continue;
    if (layer.wrong_choice.empty()) break;
    return fmt::format("layer {} ({}): {}. Of equal numbers any may be chosen, and no rounding makes another choice.",
                       named(layer.name), layer.op, layer.wrong_choice);
  }
  const Culprit culprit = find_culprit(comparison);
  if (!culprit.bound) return "an output or scalar violates its bound.";
  const bool is_of_order = stands_on_order(culprit.bound->kind) && !exceeds_any_order(comparison);
  return fmt::format("{}. Rounding in the stated arithmetic{} cannot do that: {}.{}", excess_sentence(culprit),
                     is_of_order ? " and order" : "",
                     is_of_order ? what_may_have_run(comparison) : what_else(culprit, may_skip_storing(report.context)),
                     explaining_reading(culprit));
}

std::string improbable_sentence(const Report& report) {
  const Comparison& comparison = report.comparison;
  const Culprit culprit = find_culprit(comparison);
  if (!culprit.bound && culprit.reading)
    return fmt::format(
        "{}: {} (root mean square over {} results). No proven bound is exceeded, but an honest run shows that with "
        "probability {} at most.",
        culprit.what, describe(*culprit.reading), culprit.reading->elements,
        bound_text(culprit.reading->false_alarm.value_or(1.0)));
  if (!culprit.bound) return "an output or scalar exceeds its probabilistic bound.";
  return fmt::format(
      "{}. No proven bound is exceeded, but this is not rounding as modelled: with errors of mean 0 any value of a "
      "report is above its {} probabilistic bound with probability {} at most. Rather {}.{}",
      excess_sentence(culprit), culprit.scope, bound_text(comparison.failure_probability),
      what_else(culprit, may_skip_storing(report.context)), explaining_reading(culprit));
}

/// Of values that no bound on their own op decides.
std::string undecided_layer(const LayerSummary& layer) {
  const std::int64_t open = layer.local.elements - layer.local.decided;
  const auto is_infinite = [](const BoundSummary& bound) { return bound.must_decide() && bound.infinite > 0; };
  const bool any_infinite = std::any_of(layer.local.bounds.begin(), layer.local.bounds.end(), is_infinite);
  std::string where;
  if (const auto& first = layer.local.first_open)
    where = fmt::format(", first sample {} element {}: computed {:.6g}, exact {:.6g}", first->sample, first->element,
                        first->computed, first->reference);
  return fmt::format(
      "layer {} ({}): {} of {} values undecided{}: {}.", named(layer.name), layer.op, open, layer.local.elements, where,
      any_infinite ? "no bound on its own rounding errors is finite there (a result that may leave the format, a "
                     "divisor that may be 0, or an argument outside the domain)"
                   : "the reference cannot be told from the computed value there, and the bound is smaller still");
}

std::string undecided_sentence(const Comparison& comparison) {
  for (const LayerSummary& layer : comparison.layers)
    if (layer.status == Status::undecided && layer.local.decided < layer.local.elements && !layer.local.bounds.empty())
      return undecided_layer(layer);
  const Culprit culprit = find_culprit(comparison);
  if (!culprit.bound)
    return "nothing was held against a proven or conditional bound (no values, or --bounds left none that decides: "
           "shadow and rounded-shadow are the error itself), or an output's bound is missing.";
  const char* why = std::isinf(culprit.bound->max_bound)
                        ? "there is no finite bound there"
                        : "the reference cannot be told from the computed value there, and the bound is smaller still";
  return fmt::format("{}: {} of {} values undecided against the {} {} bound: {}.", culprit.what,
                     culprit.bound->undecided, culprit.bound->checked, culprit.scope, name_of(culprit.bound->kind),
                     why);
}

std::string list_of(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += fmt::format("{}{:.6g}", text.empty() ? "" : " and ", number);
  return text;
}

/// "its operand is 0 (1.7e-48 in the exact network)"
std::string operands_text(const VoidCase& one) {
  if (one.operands.empty()) return "";
  const std::string what = one.operands.size() == 1 ? "its operand is " : "its operands are ";
  const bool differs = one.operands != one.exact_operands;
  return what + list_of(one.operands) +
         (differs ? fmt::format(" ({} in the exact network)", list_of(one.exact_operands)) : "");
}

/// Why a value is not finite, as far as its op tells.
std::string cause_of(const LayerSummary& layer, const VoidCase& one) {
  if (layer.op == op::MaskedSoftmax::name && !one.exact)
    return "every element of its row is masked, and 0/0 is no number";
  if (!one.exact) return fmt::format("{} has no value there, or one beyond all doubles", layer.op);
  if (std::abs(*one.exact) > one.largest)
    return fmt::format("the exact value is {:.6g}, above the largest number of the format, {:.6g}", *one.exact,
                       one.largest);
  const std::string value = fmt::format("the exact value is {:.3g}", *one.exact);
  return value +
         (layer.copies ? ": no rounding makes that of it, a bug does" : ": an overflow on the way there, or a bug");
}

/// Where values come from that are not finite.
std::string why_void(const LayerSummary& layer) {
  if (!layer.explained_by.empty()) return fmt::format(" (from {})", named(layer.explained_by));
  if (!layer.first_void) return "";
  const VoidCase& one = *layer.first_void;
  const std::string operands = operands_text(one);
  return fmt::format(": sample {} element {} is {}, {}{}{}", one.sample, one.element, one.computed, operands,
                     operands.empty() ? "" : ", ", cause_of(layer, one));
}

std::string void_sentence(const Comparison& comparison) {
  for (const LayerSummary& layer : comparison.layers)
    if (layer.status == Status::invalid)
      return fmt::format("layer {} ({}) has {} that {} not finite{}; no bound says anything about {}.",
                         named(layer.name), layer.op,
                         layer.non_finite == 1 ? "an output" : fmt::format("{} outputs", layer.non_finite),
                         layer.non_finite == 1 ? "is" : "are", why_void(layer), layer.non_finite == 1 ? "it" : "them");
  return "some outputs are not finite.";
}

std::string share_text(double share) {
  return share > 0.0 && share < 0.005 ? "less than 1 %" : fmt::format("{:.0f} %", 100.0 * share);
}

std::string holding_sentence(const Comparison& comparison) {
  std::string text = fmt::format("every proven and conditional bound holds on {}.", checked_outputs(comparison));
  if (const auto& closest = comparison.closest)
    text += fmt::format(" Closest, single roundings apart: {}, {} of its {} {} bound{}.", named(closest->layer),
                        share_text(closest->utilisation), in_words(closest->scope), name_of(closest->bound),
                        why_close(comparison));
  return text;
}

/// Outputs that have lost most of their digits, holds or not: "; output 'y' is off by 37 % of its largest value".
std::string lost_digits(const Comparison& comparison) {
  constexpr double most_of_them = 0.01;
  for (const OutputSummary& output : comparison.outputs)
    if (output.scope.elements > 0 && output.scope.scale > 0.0 &&
        output.scope.max_error > most_of_them * output.scope.scale)
      return fmt::format(" Output {} is off by {:.3g} % of its largest value.", named(output.name),
                         100.0 * output.scope.max_error / output.scope.scale);
  return "";
}

std::string verdict_sentence(const Report& report) {
  const Comparison& comparison = report.comparison;
  switch (comparison.verdict) {
    case Status::holds:
      return "HOLDS: " + holding_sentence(comparison);
    case Status::approaches:
      return "HOLDS, approached: " + holding_sentence(comparison);
    case Status::not_checked:  // of parts alone
    case Status::undecided:
      return "UNDECIDED: " + undecided_sentence(comparison);
    case Status::improbable:
      return "IMPROBABLE: " + improbable_sentence(report);
    case Status::invalid:
      return "VOID: " + void_sentence(comparison);
    case Status::violated:
      return "VIOLATED: " + violated_sentence(report);
  }
  return "";
}

/// Where nobody has measured or documented the arithmetic.
std::string premise_of(const ArithmeticModel& arithmetic) {
  if (arithmetic.evidence != Evidence::assumed) return "";
  const std::string source = arithmetic.source.empty() ? "" : fmt::format(" ({})", arithmetic.source);
  return fmt::format(" Assuming {} in order {}{}.", arithmetic.name, to_string(arithmetic.order), source);
}

/// Layers that are judged by an arithmetic: all, or those of its records.
bool is_judged_by(const LayerSummary& layer, const ArithmeticModel& arithmetic) {
  return !layer.record || layer.record->arithmetic == arithmetic.name;
}

/// As a trace declares a kernel's operands and unit; empty where an arithmetic has no such reading.
std::string declaration_of(const ProductKernel& kernel) {
  const bool cuts = kernel.operand_rounding == Rounding::toward_zero;
  if (kernel.operand_rounding == Rounding::nearest_away || (cuts && !kernel.matrix_unit)) return "";
  const std::string_view operands = format(kernel.operands).name;
  std::string text = fmt::format(
      R"({{"name": "{}{}", "input": "{}", "accumulator": "fp32", "output": "fp32", "stores_declared_types": true)",
      operands, kernel.matrix_unit ? " unit" : " operands", operands);
  if (const std::optional<TensorCore>& unit = kernel.matrix_unit)
    text += fmt::format(R"(, "tensor_core": {{"fraction_bits": {}, "block": {}{}{}}})", unit->fraction_bits,
                        unit->block, unit->sum_bits < 23 ? fmt::format(R"(, "sum_bits": {})", unit->sum_bits) : "",
                        cuts ? R"(, "cuts_operands": true)" : "");
  return text + "}";
}

}  // namespace

std::string undeclared_kernel(const Comparison& comparison, const std::vector<ArithmeticModel>& arithmetics) {
  const auto assumed = std::find_if(arithmetics.begin(), arithmetics.end(), [](const ArithmeticModel& one) {
    return one.evidence == Evidence::assumed && one.source.starts_with("default: ");
  });
  if (assumed == arithmetics.end()) return "";
  std::set<std::string> kernels, declarations;
  std::int64_t products = 0;
  for (const LayerSummary& layer : comparison.layers) {
    const std::optional<KernelFinding>& found = layer.kernel;
    const bool is_product = layer.op == "Gemm" || layer.op == "MatMul" || layer.op == "Conv" ||
                            (found && found->kernel && found->kernel->of_products);
    if (!is_product || !is_judged_by(layer, *assumed)) continue;
    const bool is_explained =
        found && found->tells() && found->others.empty() && found->compared == layer.compared && layer.compared > 0;
    const bool is_narrow = is_explained && found->kernel->operands != assumed->input &&
                           (found->kernel->matrix_unit || found->stored_in != found->kernel->operands);
    if (!is_narrow) return "";
    ++products;
    kernels.insert(describe(*found->kernel, found->k));
    declarations.insert(declaration_of(*found->kernel));
  }
  if (declarations.size() != 1 || declarations.begin()->empty()) return "";
  return fmt::format(
      "Nothing was declared, {} is assumed, and all bits of {} are those of {}{}: declare {} as the arithmetic of the "
      "records (docs/file-formats.md; in Python record(..., arithmetic=...)).",
      assumed->name, products == 1 ? "the product" : fmt::format("the {} products", products), *kernels.begin(),
      kernels.size() > 1 ? fmt::format(" and {} like it in other parts", kernels.size() - 1) : "",
      *declarations.begin());
}

std::string headline(const Report& report) {
  const std::string state = report.context.interrupted ? "INTERRUPTED, " : "";
  const std::optional<RunSummary>& run = report.comparison.run;
  const std::string undeclared =
      undeclared_kernel(report.comparison, run ? run->arithmetics : std::vector{report.context.arithmetic});
  return state + verdict_sentence(report) + lost_digits(report.comparison) +
         (undeclared.empty() ? premise_of(report.context.arithmetic) : " " + undeclared);
}

std::string open_question_text(const Report& report, Question question) {
  if (is_answered(report.comparison, question)) return "";
  const std::string what = question == Question::this_run ? "this run from the input on" : "any run";
  for (const OpenQuestion& open : report.comparison.open_questions) {
    if (open.question != question) continue;
    const std::string_view results = format(report.context.arithmetic.output).name;
    const std::string stored = report.context.results.empty() ? std::string(results) : report.context.results;
    return fmt::format("{}: not certifiable in {}{}{}{} ({} of {} values of outputs)", what,
                       report.context.arithmetic.name,
                       stores_narrowly(report.context.arithmetic) ? " with results in " + stored + "," : "",
                       open.layer.empty() ? "" : fmt::format(" from {} on", named(open.layer)),
                       open.why.empty() ? "" : ": " + open.why, open.values, open.of);
  }
  return what + ": no such bound was computed for some values of outputs (--bounds, --memory, --scalar OUTPUT[I])";
}

std::string decided_by_some_text(const Comparison& comparison) {
  std::map<BoundKind, std::int64_t> silent;
  std::string layer;
  for (const LayerSummary& one : comparison.layers) {
    for (const BoundSummary& bound : one.local.bounds) {
      const std::int64_t others = std::min(bound.infinite, one.local.decided - bound.decided());
      if (!bound.must_decide() || others <= 0) continue;
      silent[bound.kind] += others;
      if (layer.empty()) layer = one.name;
    }
  }
  if (silent.empty()) return "";
  std::string text;
  for (const auto& [kind, values] : silent)
    text += fmt::format("{}{} of {} value{}", text.empty() ? "" : ", ", name_of(kind), values, values == 1 ? "" : "s");
  return fmt::format("Infinite where another bound decides: {} (first in {}).", text, named(layer));
}

std::string readings_text(const Comparison& comparison) {
  constexpr std::size_t most_layers = 3;
  std::string text;
  std::size_t count = 0;
  for (const LayerSummary& layer : comparison.layers) {
    const NearestReading* reading = decisive_reading(&layer);
    if (!reading || ++count > most_layers) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", named(layer.name), describe(*reading));
  }
  if (count > most_layers) text += fmt::format("; and {} more layers", count - most_layers);
  return text.empty() ? "" : "Not as declared: " + text + ".";
}

std::string explain_columns(Medium medium) {
  const bool page = medium == Medium::page;
  const auto verdict = [page](const char* on_page, const char* in_table) {
    return page ? fmt::format("{:<12}", on_page) : fmt::format("{:<10}", in_table);
  };
  const std::string below(verdict("", "").size(), ' ');
  return fmt::format(
      R"(What the columns say
  n         products in one sum of the layer (its fan-in)
  kappa     median condition number of its sums, sum|w x| / |sum w x|: how much cancels in them
This layer alone: computed output against the exact layer on the computed input
  error     largest |computed - exact|
  ulps      the same in units in the last place of the exact value
  any       largest share of the bound that holds for any order of summation (partial-
            sums, else componentwise)
  order     the same for the declared order, or that of the kernel found (running, else order-
            aware); 1 would mean that rounding did its very worst
  folk!     how many outputs violate the folklore |error| <= gamma_n |y|, which forgets kappa
From input: computed output against the exact network on the original input
  error     largest |computed - exact|
  fwd       largest share of the forward bound, which adds and amplifies every layer's bound
Last column
  {}every proven and conditional bound holds for every value
  {}they hold, and one is used to the threshold or more (where it exceeds one ulp: a single
  {}rounding reaches its bound by design and does not count)
  {}the reference or a missing bound leaves it open
  {}no proven bound is exceeded, but one that leaves rounding errors to chance is
  {}values that are not finite: no statement
  {}certainly above a bound: not rounding of the stated arithmetic
  {}no proven or conditional bound was held against it (--bounds)
Outputs: one line a bound, by the question that it answers
  this run  what this very run may be off: shadow, the error itself, enclosed, whatever made the
            run; forward, layer by layer
  any run   what every run of this arithmetic may be off: adjoint/any-order with sums in any order,
            adjoint/order-aware with sums in the declared one, or as the kernels found in the run
            add them; inf: not certifiable in it, of how many values is said below;
            replay: that order and this arithmetic fix every number, so that the run was made
            here, and its error is that of every such run; it says nothing of other orders;
            rounded-shadow in any order too, where numbers are rounded to a narrow format: those
            roundings made, not bounded. The smaller one of the two says so, and rounded-shadow in
            how many samples every run has the sign of the exact number, or the other one;
            adjoint/probabilistic, exceeded with the probability said below it if rounding errors
            have mean 0; adjoint/statistical, six standard deviations of sums in random order, an
            estimate
  largest   the largest bound
  used      its largest share that the measured error uses
  {}
  remainder largest share of a bound that is of second order: curvature, kinks, fixed operands
  {}
  largest parts   at the sample with the largest error: what each layer's own rounding made of it,
            signed (with rounding the inputs they add up to 100 %); and how much of the bound
            adjoint/any-order is charged at each layer
  condition how much a relative error of every term of a layer's sums shows up in the output,
            relative to it, to first order; times the layer's local error, its part of the bound
Guarantees: proven (a theorem), conditional (a theorem, if what 'assumes' lists is so);
probabilistic (a theorem about rounding errors taken for chance, with the probability that it
fails: it proves nothing, and a value above it is improbable); and never part of the verdict:
heuristic (an estimate, or folklore, shown with its violations).
docs/theory.md has the theorems.
)",
      verdict("holds", "ok"), verdict("approaches", "near"), below, verdict("undecided", "open"),
      verdict("improbable", "odd"), verdict("void", "void"), verdict("violated", "FAIL"), verdict("not checked", "-"),
      page ? "median bound/error   over the values with an error" : "x error   median of bound / error",
      page ? "ms a sample   shadow and adjoint are computed together, each shows it all"
           : "ms        milliseconds a sample; shadow and adjoint are computed together, each shows it all");
}

}  // namespace driftbound::analysis
