#include "soundness/foreign_runs.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "soundness/lone_node.hpp"
#include "soundness/random.hpp"

namespace driftbound::soundness {
namespace {

/// Subnormals are 0 while this lives, as operands and as results.
class Flushing {
public:
#if defined(__x86_64__)
  explicit Flushing(bool flushes) : before_(_mm_getcsr()) {
    if (flushes) _mm_setcsr(before_ | 0x8040u);
  }
  ~Flushing() {
    _mm_setcsr(before_);
  }
#else
  explicit Flushing(bool flushes) {
    if (flushes) throw NotAvailable("subnormals are flushed here on x86-64 only");
  }
#endif
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

#if defined(__x86_64__)
private:
  unsigned before_;
#endif
};

SummationOrder random_order(Random& random) {
  const std::vector<std::string> orders = {"sequential", "sequential+fma", "pairwise", "blocked:8+fma", "split-k:3"};
  return parse_summation_order(random.pick(orders));
}

class Runner {
public:
  Runner(const Graph& graph, const ArithmeticModel& arithmetic, const ForeignRun& run)
      : graph_(graph),
        arithmetic_(arithmetic),
        run_(run),
        random_(run.seed),
        varies_(depends_on_input(graph)),
        values_(graph.values.size()) {
    for (ValueId id = 0; id < values_.size(); ++id)
      if (graph.is_constant(id)) values_[id] = graph.value(id).constant;
  }

  void give(const Inputs& used) {
    for (const ValueId id : graph_.inputs) values_[id] = used.at(graph_.value(id).name);
  }

  LayerTrace visit(const Node& node) {
    if (!varies_[node.output]) throw Unsupported("foreign runs of constants are not written");
    values_[node.output] = stored(node, is_plain_product(node) ? product(node) : on_its_own(node));
    return {node.name, values_[node.output]};
  }

private:
  bool is_plain_product(const Node& node) const {
    const auto* gemm = std::get_if<op::Gemm>(&node.op);
    if (gemm == nullptr && !std::holds_alternative<op::MatMul>(node.op)) return false;
    if (gemm != nullptr && (gemm->alpha != 1.0 || gemm->beta != 1.0 || gemm->transpose_a)) return false;
    const StoredTensor &a = values_[node.inputs[0]], &b = values_[node.inputs[1]];
    if (varies_[node.inputs[1]] || !varies_[node.inputs[0]] || a.shape().size() != 2 || b.shape().size() != 2)
      return false;
    if (graph_.value(node.output).type != ElementType::f32) return false;
    if (node.inputs.size() < 3) return true;
    const std::int64_t columns = gemm->transpose_b ? b.shape()[0] : b.shape()[1];
    return !varies_[node.inputs[2]] && values_[node.inputs[2]].shape() == Shape{columns};
  }

  /// As products read it.
  std::vector<float> read(ValueId id) const {
    std::vector<float> numbers;
    for (const double x : values_[id].to_double().values)
      numbers.push_back(static_cast<float>(round_to(x, format(arithmetic_.input), Rounding::nearest_even)));
    return numbers;
  }

  StoredTensor product(const Node& node) const {
    const auto* gemm = std::get_if<op::Gemm>(&node.op);
    const Shape &a = values_[node.inputs[0]].shape(), &b = values_[node.inputs[1]].shape();
    const bool is_transposed = gemm != nullptr && gemm->transpose_b;
    FloatProduct whole{static_cast<std::size_t>(a[0]),
                       static_cast<std::size_t>(a[1]),
                       static_cast<std::size_t>(is_transposed ? b[0] : b[1]),
                       read(node.inputs[0]),
                       read(node.inputs[1]),
                       {}};
    if (is_transposed) whole.b = transposed(whole.b, whole.n, whole.k);
    if (node.inputs.size() > 2)
      for (const double x : values_[node.inputs[2]].to_double().values) whole.bias.push_back(static_cast<float>(x));
    return StoredTensor::from(Tensor<float>({a[0], static_cast<std::int64_t>(whole.n)}, in_batches(std::move(whole))));
  }

  static std::vector<float> transposed(const std::vector<float>& matrix, std::size_t rows, std::size_t columns) {
    std::vector<float> result(matrix.size());
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) result[j * rows + i] = matrix[i * columns + j];
    return result;
  }

  std::vector<float> in_batches(FloatProduct part) const {
    const Flushing flushing(arithmetic_.products_may_flush);
    const std::vector<float> a = std::exchange(part.a, {});
    const std::size_t rows = part.m, step = run_.batch == 0 ? rows : static_cast<std::size_t>(run_.batch);
    std::vector<float> result;
    for (std::size_t first = 0; first < rows; first += step) {
      part.m = std::min(step, rows - first);
      const auto from = a.begin() + static_cast<std::ptrdiff_t>(first * part.k);
      part.a.assign(from, from + static_cast<std::ptrdiff_t>(part.m * part.k));
      const std::vector<float> rows_of_it = run_.product.multiply(part);
      result.insert(result.end(), rows_of_it.begin(), rows_of_it.end());
    }
    return result;
  }

  StoredTensor stored(const Node& node, StoredTensor result) const {
    const FormatId stored = stored_format(arithmetic_, graph_.value(node.output).type);
    if (stored == arithmetic_.accumulator) return result;
    Tensor<double> values = result.to_double();
    for (double& x : values.values) x = round_to(x, format(stored), Rounding::nearest_even);
    return StoredTensor::from(Tensor<float>(values.shape, {values.values.begin(), values.values.end()}));
  }

  StoredTensor on_its_own(const Node& node) {
    return evaluated_alone(node, values_, varies_, cpu_arithmetic(arithmetic_.name, random_order(random_)));
  }

  const Graph& graph_;
  const ArithmeticModel& arithmetic_;
  const ForeignRun& run_;
  Random random_;
  const std::vector<bool> varies_;
  std::vector<StoredTensor> values_;
};

}  // namespace

Trace trace_in_unknown_order(const Graph& graph, const Inputs& inputs, ArithmeticModel arithmetic,
                             const std::string& program) {
  Trace trace;
  trace.arithmetic = std::move(arithmetic);
  trace.arithmetic.order = {};
  trace.inputs = inputs;
  trace.samples = sample_count(graph, batch_layout(graph), inputs);
  trace.provenance.program = program;
  return trace;
}

Trace foreign_run(const Graph& graph, const Inputs& inputs, ArithmeticModel arithmetic, const ForeignRun& run) {
  Trace trace = trace_in_unknown_order(graph, inputs, std::move(arithmetic), run.product.name);
  Runner runner(graph, trace.arithmetic, run);
  runner.give(used_inputs(graph, trace));
  for (const Node& node : graph.nodes) trace.layers.push_back(runner.visit(node));
  return trace;
}

}  // namespace driftbound::soundness
