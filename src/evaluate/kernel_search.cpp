#include "driftbound/evaluate/kernel_search.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <variant>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "evaluate/kernel_family.hpp"
#include "linalg/scheduled_sums.hpp"

namespace driftbound {
namespace {

using linalg::sum_lanes;
using Lanes = std::array<float, sum_lanes>;

/// Numbers of a result that are compared together: what they are made of, and what was recorded.
struct LaneGroup {
  std::vector<float> a, b;  ///< [k, sum_lanes] as recorded
  Lanes addend = {};        ///< beta times the bias, rounded
  Lanes recorded = {};
  std::size_t count = 0;  ///< lanes in use
};

/// The numbers of a stored tensor; those of float32 are read where they lie.
class Numbers {
public:
  explicit Numbers(const StoredTensor& stored) : stored_(&stored) {
    if (stored.type() != ElementType::f32) converted_ = stored.to_double();
  }
  const Shape& shape() const { return stored_->shape(); }
  double operator[](std::size_t i) const {
    if (converted_) return converted_->values[i];
    float x = 0.0f;
    std::memcpy(&x, stored_->bytes().data() + i * sizeof x, sizeof x);
    return static_cast<double>(x);
  }

private:
  const StoredTensor* stored_;
  std::optional<Tensor<double>> converted_;
};

/// One evaluation of a product.
class RecordedProduct {
public:
  RecordedProduct(const Graph& graph, std::size_t node, const Trace& trace)
      : node_(graph.nodes[node]),
        a_(value_of(graph, node_.inputs[0], trace)),
        b_(value_of(graph, node_.inputs[1], trace)),
        y_(trace.layers[node].output) {
    if (const auto* gemm = std::get_if<op::Gemm>(&node_.op)) {
      plan_ = plan_product(*gemm, a_.shape(), b_.shape());
      alpha_ = static_cast<float>(gemm->alpha);
      if (node_.inputs.size() > 2) take_addend(value_of(graph, node_.inputs[2], trace), gemm->beta);
    } else {
      plan_ = plan_product(std::get<op::MatMul>(node_.op), a_.shape(), b_.shape());
    }
    stored_ = stored_format(trace.arithmetic, graph.value(node_.output).type);
    fits_ = plan_.batches * plan_.m * plan_.n == size();
  }

  bool fits() const { return fits_; }
  const ProductPlan& plan() const { return plan_; }
  std::int64_t size() const { return element_count(y_.shape()); }
  bool has_addend() const { return !addend_.empty(); }
  float alpha() const { return alpha_; }
  FormatId stored() const { return stored_; }

  /// Adds element e to a group unless a number of it is not finite, or is none of float32. Returns whether it did.
  bool append(std::int64_t e, LaneGroup& group) const {
    const std::int64_t j = e % plan_.n, i = e / plan_.n % plan_.m, batch = e / (plan_.n * plan_.m);
    const std::size_t lane = group.count;
    bool is_usable = std::isfinite(y_[static_cast<std::size_t>(e)]);
    const auto take = [&](double value) {
      const auto x = static_cast<float>(value);
      is_usable = is_usable && std::isfinite(x) && static_cast<double>(x) == value;
      return x;
    };
    for (std::int64_t k = 0; k < plan_.k && is_usable; ++k) {
      const std::size_t place = static_cast<std::size_t>(k) * sum_lanes + lane;
      group.a[place] = take(a_[plan_.a_index(batch, i, k)]);
      group.b[place] = take(b_[plan_.b_index(batch, k, j)]);
    }
    group.recorded[lane] = take(y_[static_cast<std::size_t>(e)]);
    group.addend[lane] = addend_.empty() ? 0.0f : addend_[static_cast<std::size_t>(e)];
    group.count += is_usable ? 1 : 0;
    return is_usable;
  }

private:
  static const StoredTensor& value_of(const Graph& graph, ValueId id, const Trace& trace) {
    if (graph.is_constant(id)) return graph.value(id).constant;
    if (const std::optional<std::size_t> node = graph.producer(id)) return trace.layers[*node].output;
    return trace.inputs.at(graph.value(id).name);
  }

  void take_addend(const StoredTensor& stored, double beta) {
    const Numbers bias(stored);
    const BroadcastIndex index(bias.shape(), y_.shape());
    addend_.resize(static_cast<std::size_t>(size()));
    const auto factor = static_cast<float>(beta);
    for (std::size_t i = 0; i < addend_.size(); ++i) addend_[i] = factor * static_cast<float>(bias[index(i)]);
  }

  const Node& node_;
  Numbers a_, b_, y_;
  ProductPlan plan_;
  std::vector<float> addend_;
  float alpha_ = 1.0f;
  FormatId stored_ = FormatId::fp32;
  bool fits_ = false;
};

/// A group as kernels read it, for every reading that was asked for.
class GroupReadings {
public:
  GroupReadings(const LaneGroup& group, std::int64_t k) : group_(group), k_(k) {}

  const linalg::SumOperands& as(const OperandChoice& choice) {
    const auto [found, is_new] = read_.try_emplace({choice.format, choice.rounding});
    if (is_new) {
      found->second.k = k_;
      found->second.a = rounded_to(group_.a, choice);
      found->second.b = rounded_to(group_.b, choice);
      found->second.a_of_unit.take(found->second.a, format(choice.format));
      found->second.b_of_unit.take(found->second.b, format(choice.format));
    }
    return found->second;
  }

private:
  static std::vector<float> rounded_to(const std::vector<float>& values, const OperandChoice& choice) {
    std::vector<float> read = values;
    if (choice.format == FormatId::fp32) return read;
    const Format& target = format(choice.format);
    for (float& x : read) x = static_cast<float>(round_to(static_cast<double>(x), target, choice.rounding));
    return read;
  }

  const LaneGroup& group_;
  std::int64_t k_;
  std::map<std::pair<FormatId, Rounding>, linalg::SumOperands> read_;
};

/// What members share: how their operands are read, what adds up a part, and which parts there are.
struct PartsOfMembers {
  OperandChoice choice;
  PartEngine engine;
  Dealing dealing;
  bool from_addend = false;
  std::vector<std::pair<Combination, AddendPlace>> members;

  ProductKernel kernel(std::size_t member) const {
    ProductKernel kernel;
    kernel.operands = choice.format;
    kernel.operand_rounding = choice.rounding;
    kernel.matrix_unit = engine.matrix_unit;
    kernel.fma = engine.fma;
    kernel.dealing = dealing;
    kernel.combination = members[member].first;
    kernel.addend = members[member].second;
    return kernel;
  }
};

std::int64_t block_of(const PartEngine& engine) {
  return engine.matrix_unit ? engine.matrix_unit->block : 1;
}

/// How many lanes of a group have the recorded number.
class Matching {
public:
  Matching(const RecordedProduct& product, const LaneGroup& group) : product_(product), group_(group) {}

  std::int64_t matches(const std::vector<float>& parts, Combination combination, AddendPlace place) const {
    return std::popcount(mask(parts, combination, place));
  }

  /// The lanes with the recorded number.
  std::uint32_t mask(const std::vector<float>& parts, Combination combination, AddendPlace place) const {
    Lanes sums =
        linalg::combined(parts, combination, place == AddendPlace::before_parts ? group_.addend.data() : nullptr);
    std::uint32_t equal = 0;
    for (std::size_t lane = 0; lane < group_.count; ++lane) {
      float sum = product_.alpha() == 1.0f ? sums[lane] : product_.alpha() * sums[lane];
      if (place == AddendPlace::last && product_.has_addend()) sum += group_.addend[lane];
      equal |= (stored(sum) == group_.recorded[lane] ? 1U : 0U) << lane;
    }
    return equal;
  }

private:
  float stored(float x) const {
    if (product_.stored() == FormatId::fp32 || product_.stored() == FormatId::fp64) return x;
    return static_cast<float>(round_to(static_cast<double>(x), format(product_.stored()), Rounding::nearest_even));
  }

  const RecordedProduct& product_;
  const LaneGroup& group_;
};

std::vector<float> part_sums(const PartsOfMembers& shared, GroupReadings& readings, const LaneGroup& group) {
  const ProductKernel kernel = shared.kernel(0);
  const SumSchedule schedule = schedule_of(shared.dealing, readings.as(shared.choice).k);
  return linalg::KernelSums(kernel, schedule)
      .parts(readings.as(shared.choice), shared.from_addend ? group.addend.data() : nullptr);
}

/// The members for sums of k terms by how their operands are read.
class Family {
public:
  explicit Family(const RecordedProduct& product) : product_(product), k_(product.plan().k) {}

  /// Members whose operands are read in one way. Empty where the group's numbers do not tell this from a way before it,
  /// except for matrix units, which numbers that are narrow already may have gone through.
  std::vector<PartsOfMembers> read_as(const OperandChoice& choice, GroupReadings& readings) {
    const linalg::SumOperands& read = readings.as(choice);
    const auto is_read = [&](const linalg::SumOperands* known) { return known->a == read.a && known->b == read.b; };
    const bool is_known = std::any_of(seen_.begin(), seen_.end(), is_read);
    const bool is_narrow_already = choice.rounding == Rounding::nearest_even && is_read(&readings.as({}));
    std::vector<PartsOfMembers> members;
    if (is_known && !is_narrow_already) return members;
    seen_.push_back(&read);
    for (const PartEngine& engine : engines_of(choice.format))
      if (!is_known || engine.matrix_unit)
        for (const Dealing& dealing : dealings(block_of(engine))) add(choice, engine, dealing, members);
    return members;
  }

private:
  const std::vector<Dealing>& dealings(std::int64_t block) {
    const auto [found, is_new] = dealings_.try_emplace(block);
    if (is_new) found->second = dealings_of(k_, block);
    return found->second;
  }

  void add(const OperandChoice& choice, const PartEngine& engine, const Dealing& dealing,
           std::vector<PartsOfMembers>& members) const {
    const auto parts = static_cast<std::int64_t>(schedule_of(dealing, k_).ends.size());
    const bool is_of_single_products = parts == k_ && k_ > 1;  // a chain of rounded products, if added in sequence
    const bool has_addend = product_.has_addend() && product_.alpha() == 1.0f;
    if (is_of_single_products && engine.fma && choice.format == FormatId::fp32) return;
    PartsOfMembers shared{choice, engine, dealing, false, {}};
    if (!is_of_single_products) shared.members.emplace_back(Combination::sequential, AddendPlace::last);
    if (parts > 3) shared.members.emplace_back(Combination::neighbours, AddendPlace::last);
    if (parts > 2) shared.members.emplace_back(Combination::halves, AddendPlace::last);
    if (has_addend && parts > 1 && !is_of_single_products)
      shared.members.emplace_back(Combination::sequential, AddendPlace::before_parts);
    if (!shared.members.empty()) members.push_back(shared);
    if (!has_addend || parts > 1 || engine.matrix_unit) return;
    shared.from_addend = true;
    shared.members = {{Combination::sequential, AddendPlace::chain_start}};
    members.push_back(shared);
  }

  const RecordedProduct& product_;
  std::int64_t k_;
  std::map<std::int64_t, std::vector<Dealing>> dealings_;
  std::vector<const linalg::SumOperands*> seen_;
};

/// Sum of squares of the distances of a group's recorded numbers from the exact sums of operands read in one way.
double squared_distance(const RecordedProduct& product, const LaneGroup& group, const linalg::SumOperands& read) {
  double sum_of_squares = 0.0;
  for (std::size_t lane = 0; lane < group.count; ++lane) {
    double sum = 0.0;
    for (std::size_t place = lane; place < read.a.size(); place += sum_lanes)
      sum += static_cast<double>(read.a[place]) * static_cast<double>(read.b[place]);
    const double exact = static_cast<double>(product.alpha()) * sum + static_cast<double>(group.addend[lane]);
    const double distance = static_cast<double>(group.recorded[lane]) - exact;
    sum_of_squares += distance * distance;
  }
  return sum_of_squares;
}

/// The ways to read operands, the declared one first.
std::vector<OperandChoice> choices_for(const ArithmeticModel& declared) {
  std::vector<OperandChoice> choices = operand_choices();
  const bool cuts = declared.tensor_core && declared.tensor_core->cuts_operands;
  std::stable_partition(choices.begin(), choices.end(), [&](const OperandChoice& choice) {
    return choice.format == declared.input && (choice.rounding == Rounding::toward_zero) == cuts;
  });
  return choices;
}

}  // namespace

class KernelSearch::Work {
  /// Longer sums are read only in the ways that come near the recorded numbers.
  static constexpr std::int64_t longest_searched_whole = 256;
  static constexpr std::size_t most_alike = 8;

public:
  Work(const Graph& graph, std::size_t node, std::int64_t most_work)
      : graph_(graph),
        node_(node),
        most_work_(most_work),
        products_left_(most_work > 0 ? std::int64_t{1} << 24 : std::int64_t{1} << 28) {
    const Op& op = graph.nodes[node].op;
    if (!std::holds_alternative<op::Gemm>(op) && !std::holds_alternative<op::MatMul>(op))
      finding_.why_not = "the family has products of matrices alone";
  }

  bool add(const Trace& evaluation) {
    if (!finding_.why_not.empty() || (is_started_ && (finding_.members_left == 0 || products_left_ <= 0))) return false;
    const RecordedProduct product(graph_, node_, evaluation);
    finding_.k = product.plan().k;
    if (!product.fits() || product.plan().k < 1 || product.size() == 0) {
      if (!is_started_) finding_.why_not = "it has no sums";
      return false;
    }
    const std::int64_t compared = finding_.compared;
    Elements elements(product);
    if (!is_started_ && !start(product, evaluation, elements)) return false;
    confirm(product, elements);
    return !left_.empty() && finding_.compared - compared == product.size();
  }

  KernelFinding finding() const {
    KernelFinding finding = finding_;
    if (!finding.why_not.empty()) return finding;
    if (!is_started_) {
      finding.why_not = "no sum has finite float32 operands and a finite result";
      return finding;
    }
    if (!mixed_.empty()) {
      finding.kernel = mixed_.front().member.kernel(0);
      finding.equal_bits = mixed_.front().numbers;
      for (std::size_t i = 1; i < mixed_.size(); ++i)
        finding.others.push_back({mixed_[i].member.kernel(0), mixed_[i].numbers});
      finding.estimate_chance_hits = chance_hits(mixed_.back().numbers);
    } else if (!left_.empty()) {
      finding.kernel = left_.front().kernel(0);
      for (const PartsOfMembers& shared : left_)
        for (std::size_t i = 0; i < shared.members.size(); ++i)
          if (finding.alike.size() < most_alike) finding.alike.push_back(shared.kernel(i));
      finding.alike.erase(finding.alike.begin());
      finding.equal_bits = finding.compared;
      finding.estimate_chance_hits = chance_hits(finding.compared);
    } else {
      finding.equal_bits = most_equal_;
    }
    return finding;
  }

private:
  /// One of several members that give all numbers together.
  struct MixedMember {
    PartsOfMembers member;     ///< one
    std::int64_t numbers = 0;  ///< that the ones before it do not give
  };

  /// Members of the family that give so many numbers by chance, if each gave one as often as others do.
  double chance_hits(std::int64_t numbers) const {
    const double share = (static_cast<double>(equal_of_others_) + 1.0) / (static_cast<double>(others_) + 2.0);
    return static_cast<double>(finding_.family) * std::pow(share, static_cast<double>(numbers));
  }

  /// Elements of a product, in an order that uses rows and columns evenly.
  class Elements {
  public:
    explicit Elements(const RecordedProduct& product) : product_(product) {
      const std::int64_t size = product.size();
      stride_ = static_cast<std::int64_t>(0.6180339887498949 * static_cast<double>(size)) | 1;
      while (std::gcd(stride_, size) != 1) stride_ += 2;
    }
    /// The next ones; empty at the end.
    LaneGroup next() {
      LaneGroup group;
      const auto numbers = static_cast<std::size_t>(product_.plan().k) * sum_lanes;
      group.a.resize(numbers);
      group.b.resize(numbers);
      for (; done_ < product_.size() && group.count < sum_lanes; ++done_) {
        product_.append(place_, group);
        place_ = (place_ + stride_) % product_.size();
      }
      clear_unused(group);
      return group;
    }

  private:
    void clear_unused(LaneGroup& group) const {
      for (std::size_t i = 0; i < group.a.size(); ++i)
        if (i % sum_lanes >= group.count) group.a[i] = group.b[i] = 0.0f;
    }
    const RecordedProduct& product_;
    std::int64_t stride_ = 1, place_ = 0, done_ = 0;
  };

  /// Compares all members with the first numbers. False where there is nothing to compare.
  bool start(const RecordedProduct& product, const Trace& evaluation, Elements& elements) {
    constexpr std::size_t groups_at_first = 8;
    const std::int64_t k = product.plan().k;
    std::vector<LaneGroup> groups;
    for (LaneGroup group = elements.next(); group.count > 0; group = elements.next()) {
      groups.push_back(std::move(group));
      if (groups.size() == groups_at_first) break;
    }
    if (groups.empty()) return false;
    std::vector<GroupReadings> readings;
    for (const LaneGroup& group : groups) readings.emplace_back(group, k);
    is_started_ = true;
    Family family(product);
    std::vector<PartsOfMembers> left;
    for (const OperandChoice& choice : near_choices(product, evaluation.arithmetic, groups, readings)) {
      left_ = family.read_as(choice, readings.front());
      if (most_work_ > 0 && static_cast<std::int64_t>(left_.size()) * k > most_work_) {
        finding_.why_not = "sums of " + std::to_string(k) + " terms take long to search";
        return false;
      }
      for (const PartsOfMembers& shared : left_) finding_.family += static_cast<std::int64_t>(shared.members.size());
      for (std::size_t i = 0; i < groups.size() && !left_.empty(); ++i)
        keep_matching(product, groups[i], readings[i], i * sum_lanes);
      left.insert(left.end(), std::make_move_iterator(left_.begin()), std::make_move_iterator(left_.end()));
    }
    left_ = std::move(left);
    for (const LaneGroup& group : groups) finding_.compared += static_cast<std::int64_t>(group.count);
    if (left_.empty()) mix(product, near_choices(product, evaluation.arithmetic, groups, readings), groups, readings);
    count_left();
    return true;
  }

  /// Members that give all numbers together, where none does alone: the one that gives most, then the one that gives most of
  /// the rest. None where one of them might do so by chance, or where this would take long.
  void mix(const RecordedProduct& product, const std::vector<OperandChoice>& choices,
           const std::vector<LaneGroup>& groups, std::vector<GroupReadings>& readings) {
    constexpr std::int64_t most_steps = std::int64_t{1} << 25;
    constexpr double most_by_chance = 1e-3;
    constexpr std::size_t most_mixed = 3;
    if (finding_.family * product.plan().k * static_cast<std::int64_t>(groups.size()) > most_steps) return;
    std::vector<PartsOfMembers> members;
    std::vector<std::vector<std::uint32_t>> masks;  // by member and group
    Family family(product);
    for (const OperandChoice& choice : choices)
      for (const PartsOfMembers& shared : family.read_as(choice, readings.front()))
        add_masks(product, shared, groups, readings, members, masks);
    std::vector<std::uint32_t> open;
    for (const LaneGroup& group : groups) open.push_back((std::uint32_t{1} << group.count) - 1);
    const auto is_open = [&] { return std::any_of(open.begin(), open.end(), [](std::uint32_t m) { return m != 0; }); };
    while (is_open() && mixed_.size() < most_mixed) {
      std::size_t best = 0;
      std::int64_t most = 0;
      for (std::size_t i = 0; i < masks.size(); ++i) {
        std::int64_t count = 0;
        for (std::size_t g = 0; g < open.size(); ++g) count += std::popcount(masks[i][g] & open[g]);
        if (count > most) std::tie(best, most) = std::pair(i, count);
      }
      if (!(chance_hits(most) < most_by_chance)) break;
      mixed_.push_back({members[best], most});
      for (std::size_t g = 0; g < open.size(); ++g) open[g] &= ~masks[best][g];
    }
    if (is_open()) mixed_.clear();
  }

  static void add_masks(const RecordedProduct& product, const PartsOfMembers& shared,
                        const std::vector<LaneGroup>& groups, std::vector<GroupReadings>& readings,
                        std::vector<PartsOfMembers>& members, std::vector<std::vector<std::uint32_t>>& masks) {
    const std::size_t first = masks.size();
    for (const auto& member : shared.members) {
      members.push_back(shared);
      members.back().members = {member};
      masks.emplace_back();
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::vector<float> parts = part_sums(shared, readings[g], groups[g]);
      const Matching matching(product, groups[g]);
      for (std::size_t i = 0; i < shared.members.size(); ++i)
        masks[first + i].push_back(matching.mask(parts, shared.members[i].first, shared.members[i].second));
    }
  }

  /// Counts what the members of a mixture give of a group; none are left where they do not give all.
  void confirm_mixed(const RecordedProduct& product, const LaneGroup& group, GroupReadings& readings) {
    const Matching matching(product, group);
    std::uint32_t open = (std::uint32_t{1} << group.count) - 1;
    for (MixedMember& one : mixed_) {
      const auto& [combination, place] = one.member.members.front();
      const std::uint32_t given = matching.mask(part_sums(one.member, readings, group), combination, place) & open;
      one.numbers += std::popcount(given);
      open &= ~given;
    }
    if (open == 0) return;
    most_equal_ = finding_.compared + static_cast<std::int64_t>(group.count) - std::popcount(open);
    mixed_.clear();
  }

  /// Compares the members left with further numbers.
  void confirm(const RecordedProduct& product, Elements& elements) {
    for (LaneGroup group = elements.next(); group.count > 0 && finding_.members_left > 0 && products_left_ > 0;
         group = elements.next()) {
      GroupReadings readings(group, product.plan().k);
      products_left_ -= product.plan().k * static_cast<std::int64_t>((left_.size() + mixed_.size()) * sum_lanes);
      if (mixed_.empty()) keep_matching(product, group, readings, static_cast<std::size_t>(finding_.compared));
      if (!mixed_.empty()) confirm_mixed(product, group, readings);
      finding_.compared += static_cast<std::int64_t>(group.count);
      count_left();
    }
  }

  /// The ways to read operands that are worth a search: all for short sums, else those not far from the recorded numbers.
  static std::vector<OperandChoice> near_choices(const RecordedProduct& product, const ArithmeticModel& declared,
                                                 const std::vector<LaneGroup>& groups,
                                                 std::vector<GroupReadings>& readings) {
    std::vector<OperandChoice> choices = choices_for(declared);
    if (product.plan().k <= longest_searched_whole) return choices;
    std::vector<double> distances;
    for (const OperandChoice& choice : choices) {
      double distance = 0.0;
      for (std::size_t i = 0; i < groups.size(); ++i)
        distance += squared_distance(product, groups[i], readings[i].as(choice));
      distances.push_back(distance);
    }
    const double least = *std::min_element(distances.begin(), distances.end());
    std::vector<OperandChoice> near;
    for (std::size_t i = 0; i < choices.size(); ++i)
      if (!(distances[i] > 16.0 * least)) near.push_back(choices[i]);
    return near;
  }

  void count_left() {
    finding_.members_left = static_cast<std::int64_t>(mixed_.size());
    for (const PartsOfMembers& shared : left_)
      finding_.members_left += static_cast<std::int64_t>(shared.members.size());
  }

  /// Leaves the members that give all numbers of a group. `before`: numbers that they gave already.
  void keep_matching(const RecordedProduct& product, const LaneGroup& group, GroupReadings& readings,
                     std::size_t before) {
    const Matching matching(product, group);
    const auto all = static_cast<std::int64_t>(group.count);
    std::vector<PartsOfMembers> left;
    for (PartsOfMembers& shared : left_) {
      const std::vector<float> parts = part_sums(shared, readings, group);
      std::vector<std::pair<Combination, AddendPlace>> members;
      for (const auto& [combination, place] : shared.members) {
        const std::int64_t equal = matching.matches(parts, combination, place);
        most_equal_ = std::max(most_equal_, static_cast<std::int64_t>(before) + equal);
        if (equal == all) {
          members.emplace_back(combination, place);
        } else if (before == 0) {
          equal_of_others_ += equal;
          others_ += all;
        }
      }
      if (members.empty()) continue;
      shared.members = std::move(members);
      left.push_back(std::move(shared));
    }
    left_ = std::move(left);
  }

  const Graph& graph_;
  std::size_t node_;
  std::int64_t most_work_;
  std::int64_t products_left_;  ///< to confirm with
  bool is_started_ = false;
  std::int64_t most_equal_ = 0;       ///< of all numbers, that the last members left give
  std::int64_t equal_of_others_ = 0;  ///< numbers of the first group that members give which do not give all of it
  std::int64_t others_ = 0;           ///< numbers that these were compared with
  std::vector<PartsOfMembers> left_;  ///< members that give all numbers
  std::vector<MixedMember> mixed_;    ///< where there are none: members that do so together
  KernelFinding finding_;
};

KernelSearch::KernelSearch(const Graph& graph, std::size_t node, std::int64_t most_work)
    : work_(std::make_unique<Work>(graph, node, most_work)) {}
KernelSearch::~KernelSearch() = default;
KernelSearch::KernelSearch(KernelSearch&&) noexcept = default;
KernelSearch& KernelSearch::operator=(KernelSearch&&) noexcept = default;

bool KernelSearch::add(const Trace& evaluation) {
  return work_->add(evaluation);
}

KernelFinding KernelSearch::finding() const {
  return work_->finding();
}

std::optional<ArithmeticModel> with_kernel(const ArithmeticModel& declared, const ProductKernel& kernel,
                                           std::int64_t k) {
  const bool reads_as_declared = kernel.operands == declared.input && kernel.operand_rounding == declared.rounding;
  if (declared.accumulator != FormatId::fp32 || kernel.addend != AddendPlace::last ||
      (!reads_as_declared && kernel.operands != FormatId::fp32))
    return std::nullopt;
  ArithmeticModel arithmetic = declared;
  arithmetic.input = kernel.operands;
  arithmetic.reduced_reduction.reset();
  if (kernel.matrix_unit) {
    if (!declared.tensor_core || declared.tensor_core->cuts_operands) return std::nullopt;
    arithmetic.tensor_core = kernel.matrix_unit;
  } else {
    arithmetic.tensor_core.reset();
    const SumSchedule schedule = schedule_of(kernel.dealing, k);
    const bool is_contiguous = kernel.dealing.kind == Dealing::Kind::contiguous;
    if (schedule.ends.size() == 1) {
      arithmetic.order = {SummationOrder::Kind::sequential, 0, kernel.fma};
    } else if (is_contiguous && kernel.combination == Combination::sequential) {
      arithmetic.order = {SummationOrder::Kind::blocked, kernel.dealing.run, kernel.fma};
    } else {
      arithmetic.order = {SummationOrder::Kind::dealt, 0, kernel.fma, kernel.dealing, kernel.combination};
    }
  }
  arithmetic.evidence = Evidence::measured;
  arithmetic.source = "the bits of the run: " + describe(kernel, k);
  return arithmetic;
}

}  // namespace driftbound
