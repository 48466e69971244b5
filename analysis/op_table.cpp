#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/inspect.hpp"
#include "analysis/op_text.hpp"
#include "analysis/table.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/bounds/theorems.hpp"
#include "driftbound/evaluate/evaluation_of.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/model/composite_examples.hpp"
#include "driftbound/model/onnx_catalogue.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/model/op_kinds.hpp"
#include "driftbound/model/recorded_call.hpp"

namespace driftbound::analysis {
namespace {

std::string join(const auto& parts, std::string_view separator = ", ") {
  return fmt::format("{}", fmt::join(parts, separator));
}

/// "7", or "Slice 1, Split 2" where ONNX has it by other names; an op that ONNX has not is a part of others.
std::string onnx_names(const Op& op) {
  Strings names;
  for (const OnnxOp& onnx : onnx_ops()) {
    const bool is_one = std::find(onnx.kinds.begin(), onnx.kinds.end(), op.index()) != onnx.kinds.end();
    if (is_one)
      names.push_back(onnx.name == name_of(op) ? std::to_string(onnx.since)
                                               : fmt::format("{} {}", onnx.name, onnx.since));
  }
  return names.empty() ? "none" : join(names);
}

std::vector<Graph> bodies_of(const CompositeExample& example) {
  std::vector<Shape> shapes;
  for (const auto& [name, shape] : example.operands) shapes.push_back(shape);
  return composite_bodies(example.op, shapes);
}

Graph body_of(const CompositeExample& example) {
  return bodies_of(example).front();
}

/// Functions whose accuracy the bounds use, in the body too.
std::set<std::string_view> functions_of(const Op& op) {
  const std::vector<std::string_view> own = theorems_of(op).functions;
  std::set<std::string_view> functions(own.begin(), own.end());
  for (const CompositeExample& example : composite_examples(op))
    for (const Node& node : body_of(example).nodes) functions.merge(functions_of(node.op));
  return functions;
}

/// Of runs of the CPU evaluator in float32.
Guarantee guarantee_of(const Op& op) {
  const ArithmeticModel fp32 = cpu_arithmetic("fp32", {});
  const std::set<std::string_view> functions = functions_of(op);
  const bool are_correct = std::all_of(functions.begin(), functions.end(), [&](std::string_view function) {
    return is_correctly_rounded(fp32.accuracy(function));
  });
  return are_correct ? Guarantee::proven : Guarantee::conditional;
}

/// Theorems on the rounding of one application; of a composite, of the nodes of its body.
std::set<std::string_view> local_theorems(const Op& op) {
  const std::vector<CompositeExample> examples = composite_examples(op);
  const std::vector<std::string_view> own = theorems_of(op).local;
  if (examples.empty()) return {own.begin(), own.end()};
  std::set<std::string_view> theorems;
  for (const CompositeExample& example : examples)
    for (const Node& node : body_of(example).nodes) theorems.merge(local_theorems(node.op));
  return theorems;
}

int number_of(std::string_view theorem) {
  return std::stoi(std::string(theorem.substr(2)));
}

/// "T-10 to T-13, T-15"
std::string ranges(const std::set<std::string_view>& theorems) {
  const std::vector<std::string_view> ids(theorems.begin(), theorems.end());
  Strings parts;
  for (std::size_t first = 0; first < ids.size();) {
    std::size_t last = first;
    while (last + 1 < ids.size() && number_of(ids[last + 1]) == number_of(ids[last]) + 1) ++last;
    if (last < first + 2) last = first;
    parts.push_back(last == first ? std::string(ids[first]) : fmt::format("{} to {}", ids[first], ids[last]));
    first = last + 1;
  }
  return join(parts);
}

enum class Family { of_one, of_more, logic, selection, composite };

Family family_of(const Op& op) {
  return std::visit(
      [](const auto& one) {
        using T = std::decay_t<decltype(one)>;
        if constexpr (ElementwiseUnary<T>) return Family::of_one;
        if constexpr (Comparison<T> || OneOf<T, op::Choice>) return Family::logic;
        if constexpr (Selection<T>) return Family::selection;
        if constexpr (Composite<T>) return Family::composite;
        return Family::of_more;
      },
      op);
}

constexpr std::array<std::string_view, 6> header = {"op",          "ONNX",      "evaluation",
                                                    "local bound", "guarantee", "propagation"};

Strings cells_of(const OpRow& row) {
  return {row.name, row.onnx, row.evaluation, row.local, row.guarantee, row.propagation};
}

/// A column that says the same in every row becomes a part of the sentence above the table.
std::string family(std::string_view title, std::string_view about, Family which) {
  std::vector<Strings> rows;
  for (const Op& op : every_kind())
    if (family_of(op) == which) rows.push_back(cells_of(row_of(op)));
  std::vector<Strings> shown(rows.size() + 1);
  Strings same;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const std::string& first = rows.front()[i];
    const bool is_same = std::all_of(rows.begin(), rows.end(), [&](const Strings& row) { return row[i] == first; });
    if (is_same) {
      same.push_back(fmt::format("{} {}", header[i], first));
      continue;
    }
    shown.front().emplace_back(header[i]);
    for (std::size_t r = 0; r < rows.size(); ++r) shown[r + 1].push_back(rows[r][i]);
  }
  const std::string sentence = same.empty() ? "" : fmt::format("Every one: {}.\n", join(same));
  return fmt::format("\n## {}\n{}{}{}{}", title, about, sentence, about.empty() && same.empty() ? "" : "\n",
                     table(shown));
}

std::string exact_functions() {
  std::vector<Strings> rows = {{"op", "exact function"}};
  for (const Op& op : every_kind()) {
    const std::string_view function = exact_function_of(op);
    if (!function.empty()) rows.push_back({std::string(name_of(op)), std::string(function)});
  }
  return "\n### Formulas\nWhere the name of an op does not say it, over the reals:\n\n" + table(rows);
}

/// The op with the shapes of its operands and its attributes: what the lines below it are written for.
std::string heading_of(const CompositeExample& example) {
  Strings operands;
  for (const auto& [name, shape] : example.operands) operands.push_back(name + " " + to_string(shape));
  const std::string attributes = attributes_of(example.op);
  return fmt::format("{}({}{}{})", name_of(example.op), join(operands), attributes.empty() ? "" : "; ", attributes);
}

std::string formulas() {
  std::string text;
  for (const Op& op : every_kind()) {
    for (const CompositeExample& example : composite_examples(op)) {
      Strings names;
      for (const auto& [name, shape] : example.operands) names.push_back(name);
      text += heading_of(example) + "\n";
      const std::vector<Graph> bodies = bodies_of(example);
      for (std::size_t i = 0; i < bodies.size(); ++i) {
        if (i > 0) text += "  or\n";
        for (const std::string& line : formulas_of(bodies[i], names)) text += "    " + line + "\n";
      }
    }
  }
  return text;
}

/// Lines of the documents' width.
std::string wrapped(const auto& words, std::string_view end) {
  constexpr std::size_t widest = 120;
  std::string text, line;
  for (const auto& word : words) {
    if (line.size() + word.size() + 2 > widest) text += std::exchange(line, "") + ",\n";
    line += fmt::format("{}{}", line.empty() ? "" : ", ", word);
  }
  return text + line + std::string(end);
}

std::string limits() {
  std::vector<Strings> rows = {{"ONNX", "is taken with"}};
  for (const OnnxOp& onnx : onnx_ops())
    if (!onnx.limits.empty()) rows.push_back({std::string(onnx.name), std::string(onnx.limits)});
  return table(rows);
}

constexpr std::string_view introduction = R"(# Ops

What driftbound computes for every op, and by which theorem of [theory.md](theory.md) its rounding is bounded. This page
is the output of `driftbound inspect --ops`, made from the code that loads, evaluates and bounds. The exact function is
the formula over the reals; `include/driftbound/model/ops.hpp` has each one with its attributes.

- *ONNX*: the first opset of ONNX's default domain from which a node of that name is taken; there is no last one. An op
  that other nodes become too has their names beside the opsets. Other ops and domains are refused by name (`driftbound
  inspect MODEL` lists them), and so is integer arithmetic on anything but shapes and constants.
- *evaluation*: on the CPU and on a device; [arithmetic.md](arithmetic.md) has every step, [elementary.md](elementary.md)
  the functions of one call.
- *local bound*: theorems on the rounding of one application. Results stored in a narrower format add T-14.
- *guarantee*: of runs of the CPU evaluator in fp32. Conditional bounds stand on the measured accuracy of functions
  (T-20); in fp64 every function is correctly rounded, and every bound is proven. What runs of other programs stand on is
  in [assumptions.md](assumptions.md).
- *propagation*: theorems on how far the exact function moves with its operands, for end-to-end bounds (T-40).
)";

constexpr std::string_view about_logic =
    R"(Truth values are the real numbers 0 and 1. Less and LessOrEqual exchange the operands; logic is a choice (T-54).
)";

constexpr std::string_view about_composites =
    R"(A composite means a graph of simpler ops, its *body*. Every node of it rounds as that op does, by the theorems under
*local bound*; the op's own bound goes through the body (T-22), and so do the certified reference and propagation.
*evaluation* says what is not seen at once below.
)";

constexpr std::string_view about_bodies = R"(
### Bodies
The bodies for small operands, as the code writes them. t1, t2 … are values used more than once, or parts of long lines;
x · y is the product of elements, `axis 3: 0:2` a slice as Python writes it. Numbers like √2 and √(2/π) are computed by
nodes, so that the exact function has the exact number. The first body is what this library computes. That runs of other
programs take its steps, or those behind an *or*, is a condition (A-04 in [assumptions.md](assumptions.md)).

```text
)";

constexpr std::string_view about_loading = R"(```

## Loading
What an op of ONNX must be beyond what ONNX says. *Constant* is what follows from initialisers, attributes and shapes.

)";

constexpr std::string_view about_constants = R"(
Constants that are computed when a model is loaded, exactly: moved elements, exact casts, and on integers
)";

constexpr std::string_view about_recorded_ops = R"(
## Recorded ops
Names that calls may have in a recorded run (trace version 2, [file-formats.md](file-formats.md)), beside those of ONNX,
and what they are. In-place forms (`aten::relu_`) are the plain op. A call with an argument that is not known, or that
computes with integers, is not judged. Elements that are infinite, or NaN, as IEEE arithmetic makes them of operands that
are not finite, are left out and counted. So are those of a sum that is minus infinity because one addend is the least
number of its format, as a mask is, and the sum rounds to it.

)";

std::string recorded_ops() {
  std::vector<Strings> rows = {{"op", "is"}};
  for (const CallableOp& op : callable_ops()) rows.push_back({fmt::format("`{}`", op.name), std::string(op.meaning)});
  return table(rows);
}

}  // namespace

OpRow row_of(const Op& op) {
  return {std::string(name_of(op)),
          onnx_names(op),
          std::string(evaluation_of(op)),
          ranges(local_theorems(op)),
          std::string(name_of(guarantee_of(op))),
          join(theorems_of(op).propagation)};
}

std::string describe_ops() {
  std::string text(introduction);
  text += family("Functions of one element", "", Family::of_one);
  text += family("Two operands, sums, products", "", Family::of_more);
  text += family("Comparisons and choices", about_logic, Family::logic) + exact_functions();
  text += family("Elements moved, repeated, left out", "", Family::selection);
  text += family("Composites", about_composites, Family::composite);
  text += std::string(about_bodies) + formulas();
  text += std::string(about_loading) + limits();
  text += std::string(about_constants) + wrapped(onnx_integer_ops(), ".\n");
  return text + std::string(about_recorded_ops) + recorded_ops();
}

}  // namespace driftbound::analysis
