#include "bounds/rows/double_run.hpp"

#include <algorithm>

#include "bounds/arithmetic/machine.hpp"
#include "bounds/nodes/operand_cache.hpp"

namespace driftbound::bounds {

namespace {

constexpr std::int64_t most_rows_of_a_block = 64;
/// Fewer rows are processed one by one.
constexpr std::size_t fewest_rows_of_a_block = 8;
/// Largest number of elements of all values of a block together; it limits memory, including the source index that is
/// stored per element of a selection.
constexpr std::int64_t most_numbers_of_a_block = std::int64_t{1} << 22;

std::vector<Shape> input_shapes(const Graph& graph, std::int64_t rows) {
  std::vector<Shape> shapes = batch_layout(graph).sample_shapes;
  for (Shape& shape : shapes) shape.at(0) = rows;
  return shapes;
}

Setting setting_for(const ArithmeticModel& arithmetic) {
  Setting setting;
  setting.arithmetic = &arithmetic;
  setting.machine = machine_of(arithmetic);
  setting.rows_are_apart = true;
  return setting;
}

std::int64_t numbers_of(const Program& program) {
  std::int64_t numbers = 0;
  for (const Node& node : program.nodes())
    if (program.varies(node.output)) numbers += element_count(program.shape(node.output));
  return numbers;
}

}  // namespace

namespace {

std::shared_ptr<const RowWalk> walk_of(const Program& program, const Setting& setting, OperandCache& operands) {
  std::string not_asked_for;
  return RowWalk::of(program, setting, operands, not_asked_for);
}

}  // namespace

DoubleRun::Walk::Walk(const Graph& graph, std::int64_t rows_at_a_time, const Setting& setting, OperandCache& operands)
    : rows(rows_at_a_time),
      shapes(input_shapes(graph, rows)),
      program(graph, shapes, rows),
      walk(program.keeps_rows_apart() ? walk_of(program, setting, operands) : nullptr) {}

DoubleRun::DoubleRun(const Graph& graph)
    : graph_(graph),
      arithmetic_(cpu_arithmetic("fp64", {SummationOrder::Kind::sequential, 0, false})),
      setting_(setting_for(arithmetic_)),
      one_(graph, 1, setting_, operands_) {}

std::unique_ptr<const DoubleRun> DoubleRun::of(const Graph& graph) {
  if (!batch_layout(graph).batched) return nullptr;
  std::unique_ptr<const DoubleRun> run(new DoubleRun(graph));
  if (run->one_.walk == nullptr) return nullptr;
  const Program& program = run->one_.program;
  const std::vector<ValueId>& outputs = program.flat().graph.outputs;
  const bool all_vary = std::all_of(outputs.begin(), outputs.end(), [&](ValueId id) { return program.varies(id); });
  return all_vary ? std::move(run) : nullptr;
}

const DoubleRun::Walk* DoubleRun::block() const {
  std::call_once(block_made_, [this] {
    const std::int64_t rows =
        std::min(most_rows_of_a_block, most_numbers_of_a_block / std::max<std::int64_t>(numbers_of(one_.program), 1));
    if (rows >= static_cast<std::int64_t>(fewest_rows_of_a_block))
      block_ = std::make_unique<const Walk>(graph_, rows, setting_, operands_);
  });
  return block_ != nullptr && block_->walk != nullptr ? block_.get() : nullptr;
}

void DoubleRun::run(std::span<const std::span<const double>> inputs, std::size_t rows, const Visit& visit) const {
  const Walk* const many = rows < fewest_rows_of_a_block ? nullptr : block();
  const std::size_t at_once = many == nullptr ? rows : static_cast<std::size_t>(many->rows);
  for (std::size_t first = 0; first < rows; first += at_once) {
    const std::size_t count = std::min(at_once, rows - first);
    if (many != nullptr && count >= fewest_rows_of_a_block && run(*many, inputs, first, count, visit)) continue;
    for (std::size_t row = first; row < first + count; ++row) run(one_, inputs, row, 1, visit);
  }
}

bool DoubleRun::run(const Walk& walk, std::span<const std::span<const double>> inputs, std::size_t first,
                    std::size_t rows, const Visit& visit) const {
  std::vector<Tensor<double>> tensors;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor<double>& tensor = tensors.emplace_back(walk.shapes[i]);
    const std::size_t width = tensor.size() / static_cast<std::size_t>(walk.rows);
    const std::span<const double> part = inputs[i].subspan(first * width, rows * width);
    std::copy(part.begin(), part.end(), tensor.values.begin());
    for (std::size_t j = part.size(); j < tensor.size(); ++j) tensor.values[j] = part[j % width];
  }
  const Program& program = walk.program;
  const std::vector<ValueId>& outputs = program.flat().graph.outputs;
  struct Rows {
    std::vector<double> values, radii;
  };
  std::vector<Rows> found(outputs.size());
  const auto keep = [&](ValueId id, const Tensor<double>& shadow, std::span<const double> radii) {
    for (std::size_t output = 0; output < outputs.size(); ++output) {
      if (outputs[output] != id) continue;
      const std::size_t width = shadow.size() / static_cast<std::size_t>(walk.rows);
      const auto end = shadow.values.begin() + static_cast<std::ptrdiff_t>(rows * width);
      found[output].values.assign(shadow.values.begin(), end);
      found[output].radii.assign(rows, 0.0);
      std::copy_n(radii.begin(), std::min(rows, radii.size()), found[output].radii.begin());
    }
  };
  if (!walk.walk->run(program, tensors, std::vector<std::vector<double>>(inputs.size()), setting_, keep)) return false;
  for (std::size_t output = 0; output < outputs.size(); ++output)
    visit(output, first, found[output].values, found[output].radii);
  return true;
}

}  // namespace driftbound::bounds
