#include "bounds/adjoint/source_radii.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/push.hpp"
#include "bounds/theorems/boxes.hpp"
#include "bounds/theorems/outward.hpp"

namespace driftbound::bounds {
namespace {

/// Shares are kept if they add up to at most this multiple of the radius: they may cancel at later nodes.
constexpr double worth_keeping = 2.0;
/// A computation may need this many times the numbers that a value may keep.
constexpr std::size_t most_on_the_way = 16;

double at_or_zero(Radii values, std::size_t i) {
  return values.empty() ? 0.0 : values[i];
}

bool is_of_one_element(const Op& op) {
  return std::visit([](const auto& which) { return ElementwiseUnary<std::decay_t<decltype(which)>>; }, op);
}

}  // namespace

SourceRadii::SourceRadii(const Program& program, const Shadow& shadow, const Setting& setting, std::size_t most_numbers)
    : program_(program),
      shadow_(shadow),
      setting_(setting),
      most_numbers_(most_numbers),
      sources_(program.size()),
      uses_(program.size(), 0) {
  for (const Node& node : program.nodes())
    for (const ValueId id : node.inputs) ++uses_[id];
}

void SourceRadii::start(ValueId id, Radii amplitude) {
  if (program_.varies(id)) sources_[id].own.assign(amplitude.begin(), amplitude.end());
}

/// Whether the node maps sources of one element to sources of one element without spreading: it is a function of one
/// element and the only reader of its operand.
bool SourceRadii::passes_own(const Node& node) const {
  return is_of_one_element(node.op) && uses_[node.inputs[0]] == 1;
}

/// Whether the shares of the operands, and those of the output, are few enough to be computed.
bool SourceRadii::may_follow(const Node& node) const {
  std::size_t largest = std::max<std::size_t>(shadow_.value(node.output).size(), 1), count = 0;
  std::set<ValueId> origins;
  for (const ValueId id : node.inputs) {
    if (!program_.varies(id)) continue;
    const Sources& sources = sources_[id];
    largest = std::max(largest, shadow_.value(id).size());
    if (!passes_own(node))
      count += static_cast<std::size_t>(
          std::count_if(sources.own.begin(), sources.own.end(), [](double x) { return x != 0.0; }));
    for (const auto& [origin, shares] : sources.shares)
      if (origins.insert(origin).second) count += shares.count;
  }
  return count <= most_on_the_way * most_numbers_ / largest;
}

/// Turns the sources that affect one element only into shares, one row for each such source that is not 0.
void SourceRadii::spread(ValueId id) {
  Sources& sources = sources_[id];
  const std::size_t size = sources.own.size();
  Shares shares;
  for (std::size_t i = 0; i < size; ++i) {
    if (sources.own[i] == 0.0) continue;
    shares.rows.resize(++shares.count * size, 0.0);
    shares.rows[(shares.count - 1) * size + i] = sources.own[i];
  }
  sources.own.clear();
  if (shares.count > 0) sources.shares[id] = std::move(shares);
}

std::vector<double> SourceRadii::of_shares(const Sources& sources, std::size_t size) const {
  std::vector<double> sums(size, 0.0);
  std::int64_t count = 0;
  for (const auto& [origin, shares] : sources.shares) {
    count += static_cast<std::int64_t>(shares.count);
    for (std::size_t k = 0; k < shares.count; ++k)
      for (std::size_t i = 0; i < size; ++i) sums[i] += std::abs(shares.rows[k * size + i]);
  }
  for (double& sum : sums) sum = theorems::outward(sum, count, 0);
  return sums;
}

std::vector<double> SourceRadii::total(const Sources& sources, std::size_t size) const {
  std::vector<double> radii = of_shares(sources, size);
  for (std::size_t i = 0; i < size; ++i)
    radii[i] = theorems::by_sources(Magnitude(radii[i]), Magnitude(at_or_zero(sources.own, i))).value();
  return radii;
}

SourceRadii::Aligned SourceRadii::align(const Node& node) const {
  Aligned operands;
  for (const ValueId id : node.inputs)
    for (const auto& [origin, shares] : sources_[id].shares) operands.counts[origin] = shares.count;
  for (const auto& [origin, count] : operands.counts) operands.count += count;
  for (const ValueId id : node.inputs) {
    const std::size_t size = shadow_.value(id).size();
    const std::map<ValueId, Shares>& known = sources_[id].shares;
    std::vector<double> rows;
    for (const auto& [origin, count] : operands.counts) {
      const auto found = known.find(origin);
      if (known.empty()) break;
      if (found == known.end())
        rows.resize(rows.size() + count * size, 0.0);
      else
        rows.insert(rows.end(), found->second.rows.begin(), found->second.rows.end());
    }
    operands.magnitudes.push_back(known.empty() ? std::vector<double>() : of_shares(sources_[id], size));
    operands.rows.push_back(std::move(rows));
  }
  return operands;
}

/// Propagates the shares of the operands by the node's Jacobian. The rounding errors of this computation become a
/// source of the output.
void SourceRadii::push_shares(std::size_t index, const std::vector<std::vector<double>>& slopes,
                              const Aligned& operands) {
  const Node& node = program_.nodes()[index];
  const NodeView view = shadow_.view_of(node);
  const std::vector<std::span<const double>> rows(operands.rows.begin(), operands.rows.end()),
      magnitudes(operands.magnitudes.begin(), operands.magnitudes.end());
  const Pushed moved = pushed(view, slopes, rows, operands.count, Jacobian::as_stored, setting_);
  Sources& result = sources_[node.output];
  auto next = moved.values.begin();
  for (const auto& [origin, count] : operands.counts) {
    const auto end = next + static_cast<std::ptrdiff_t>(count * view.output->size());
    result.shares[origin] = {count, {next, end}};
    next = end;
  }
  if (moved.roundings == 0) return;
  result.own = lost_of(pushed(view, slopes, magnitudes, 1, Jacobian::magnitudes, setting_), operands.count);
}

void SourceRadii::pass_own(std::size_t index, const std::vector<std::vector<double>>& slopes) {
  const Node& node = program_.nodes()[index];
  const std::vector<double>& own = sources_[node.inputs[0]].own;
  if (own.empty()) return;
  const std::vector<std::span<const double>> operands = {own};
  const Pushed moved = pushed(shadow_.view_of(node), slopes, operands, 1, Jacobian::magnitudes, setting_);
  std::vector<double>& result = sources_[node.output].own;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Magnitude passed(theorems::outward(moved.values[i], moved.roundings, moved.products));
    result[i] = (Magnitude(result[i]) + passed).value();
  }
}

std::vector<double> SourceRadii::step(std::size_t index, const std::vector<std::vector<double>>& slopes, Radii added,
                                      Radii remainder) {
  const Node& node = program_.nodes()[index];
  if (!program_.varies(node.output)) return {};
  const std::size_t size = shadow_.value(node.output).size();
  if (!may_follow(node)) {
    forget_operands(index);
    sources_[node.output].own.assign(size, infinity);
    return sources_[node.output].own;
  }
  if (!passes_own(node))
    for (const ValueId id : node.inputs) spread(id);
  const Aligned operands = align(node);
  Sources& result = sources_[node.output];
  if (operands.count > 0) push_shares(index, slopes, operands);
  result.own.resize(size, 0.0);
  if (passes_own(node)) pass_own(index, slopes);
  for (std::size_t i = 0; i < size; ++i)
    result.own[i] =
        (Magnitude(result.own[i]) + Magnitude(at_or_zero(added, i)) + Magnitude(at_or_zero(remainder, i))).value();
  if (operands.count * size > most_numbers_) result = {{}, total(result, size)};
  forget_operands(index);
  return total(result, size);
}

/// Releases the sources of operands that no later node reads.
void SourceRadii::forget_operands(std::size_t index) {
  for (const ValueId id : program_.last_reads()[index])
    if (id != program_.nodes()[index].output) sources_[id] = {};
}

void SourceRadii::settle(ValueId id, Radii radii) {
  Sources& sources = sources_[id];
  if (radii.empty()) return void(sources = {});
  const std::size_t size = radii.size();
  const std::vector<double> known = total(sources, size);
  sources.own.resize(size, 0.0);
  for (std::size_t i = 0; i < size; ++i) {
    const bool is_worth_keeping = known[i] <= worth_keeping * radii[i];
    if (std::isfinite(radii[i]) && std::isfinite(known[i]) && is_worth_keeping) continue;
    sources.own[i] = radii[i];
    for (auto& [origin, shares] : sources.shares)
      for (std::size_t k = 0; k < shares.count; ++k) shares.rows[k * size + i] = 0.0;
  }
}

}  // namespace driftbound::bounds
