#include "analysis/op_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "analysis/formula.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/bounds/theorems.hpp"
#include "driftbound/evaluate/evaluation_of.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/model/composite_examples.hpp"
#include "driftbound/model/onnx_catalogue.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/model/op_kinds.hpp"

namespace driftbound::analysis {
namespace {

using Strings = std::vector<std::string>;

std::string join(const auto& parts, std::string_view separator = ", ") {
  std::string text;
  for (const auto& part : parts) text += fmt::format("{}{}", text.empty() ? "" : separator, part);
  return text;
}

/// Columns as wide as their widest cell: a table for a terminal that Markdown reads too.
std::string table(const std::vector<Strings>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Strings& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < rows[r].size(); ++i) text += fmt::format("| {:<{}} ", rows[r][i], widths[i]);
    text += "|\n";
    if (r > 0) continue;
    for (const std::size_t width : widths) text += "|" + std::string(width + 2, '-');
    text += "|\n";
  }
  return text;
}

/// "Slice 7, Split 7"; an op that ONNX has not is a part of others.
std::string onnx_names(const Op& op) {
  Strings names;
  for (const OnnxOp& onnx : onnx_ops()) {
    const bool is_one = std::find(onnx.kinds.begin(), onnx.kinds.end(), op.index()) != onnx.kinds.end();
    if (is_one) names.push_back(fmt::format("{} {}", onnx.name, onnx.since));
  }
  return names.empty() ? "in bodies" : join(names);
}

Graph body_of(const CompositeExample& example) {
  std::vector<Shape> shapes;
  for (const auto& [name, shape] : example.operands) shapes.push_back(shape);
  return composite_body(example.op, shapes);
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

Strings row_of(const Op& op) {
  const OpTheorems theorems = theorems_of(op);
  return {std::string(name_of(op)),
          onnx_names(op),
          std::string(evaluation_of(op)),
          join(theorems.local),
          std::string(name_of(guarantee_of(op))),
          join(theorems.propagation)};
}

enum class Family { of_one, of_more, selection, composite };

Family family_of(const Op& op) {
  return std::visit(
      [](const auto& one) {
        using T = std::decay_t<decltype(one)>;
        if constexpr (ElementwiseUnary<T>) return Family::of_one;
        if constexpr (Selection<T>) return Family::selection;
        if constexpr (Composite<T>) return Family::composite;
        return Family::of_more;
      },
      op);
}

std::string family(std::string_view title, Family which) {
  std::vector<Strings> rows = {{"op", "ONNX, since opset", "evaluation", "local bound", "guarantee", "propagation"}};
  for (const Op& op : every_kind())
    if (family_of(op) == which) rows.push_back(row_of(op));
  return fmt::format("\n## {}\n{}", title, table(rows));
}

std::string formulas() {
  std::string text;
  for (const Op& op : every_kind()) {
    for (const CompositeExample& example : composite_examples(op)) {
      Strings names;
      for (const auto& [name, shape] : example.operands) names.push_back(name);
      text += fmt::format("{}({}){}\n", name_of(op), join(names), example.form.empty() ? "" : "  " + example.form);
      for (const std::string& line : formulas_of(body_of(example), names)) text += "    " + line + "\n";
    }
  }
  return text;
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

- *ONNX, since opset*: names in ONNX's default domain, and the first opset whose meaning is known; there is no last one.
  Other ops and domains are refused by name (`driftbound inspect MODEL` lists them), and so is integer arithmetic on
  anything but shapes and constants.
- *evaluation*: on the CPU and on a device; [arithmetic.md](arithmetic.md) has every step, [elementary.md](elementary.md)
  the functions of one call.
- *local bound*: theorems on the rounding of one application. Results stored in a narrower format add T-14.
- *guarantee*: of runs of the CPU evaluator in fp32. Conditional bounds stand on the measured accuracy of functions
  (T-20); in fp64 every function is correctly rounded, and every bound is proven. What runs of other programs stand on is
  in [assumptions.md](assumptions.md).
- *propagation*: theorems on how far the exact function moves with its operands, for end-to-end bounds (T-40).
)";

constexpr std::string_view about_bodies = R"(
### Bodies
A composite means a graph of simpler ops, its *body*: below for small operands, as the code writes it, t1 and t2 being
values used more than once, x · y the product of elements. Every node of it rounds as that op does. Local bounds go
through the body (T-22), and so do the certified reference and propagation. Numbers like √2 and √(2/π) are computed by
nodes, so that the exact function has the exact number. Runs of other programs may take other steps; that they take these
is a condition (A-04 in [assumptions.md](assumptions.md)).

```text
)";

constexpr std::string_view about_loading = R"(```

## Loading
What an op of ONNX must be beyond what ONNX says. *Constant* is what follows from initialisers, attributes and shapes.

)";

constexpr std::string_view about_constants = R"(
Constants that are computed when a model is loaded, exactly: moved elements, exact casts, and on integers
)";

}  // namespace

std::string describe_ops() {
  std::string text(introduction);
  text += family("Functions of one element", Family::of_one);
  text += family("Two operands, sums, products", Family::of_more);
  text += family("Elements moved, repeated, left out", Family::selection);
  text += family("Composites", Family::composite);
  text += std::string(about_bodies) + formulas();
  text += std::string(about_loading) + limits();
  return text + std::string(about_constants) + join(onnx_integer_ops()) + ".\n";
}

}  // namespace driftbound::analysis
