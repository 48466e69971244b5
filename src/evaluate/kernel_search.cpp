#include "driftbound/evaluate/kernel_search.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "evaluate/kernel_family.hpp"
#include "evaluate/recorded_numbers.hpp"
#include "evaluate/row_search.hpp"
#include "linalg/scheduled_sums.hpp"
#include "model/windows.hpp"

namespace driftbound {
namespace {

using linalg::sum_lanes;
template <class Real>
using Lanes = std::array<Real, sum_lanes>;

/// Operands as they are, in sums of numbers of a type.
template <class Real>
constexpr OperandChoice as_they_are = {std::is_same_v<Real, double> ? FormatId::fp64 : FormatId::fp32,
                                       Rounding::nearest_even};

/// Numbers of a result that are compared together: what they are made of, and what was recorded.
template <class Real>
struct LaneGroup {
  std::vector<Real> a, b;   ///< [k, sum_lanes] as recorded
  Lanes<Real> addend = {};  ///< beta times the bias, rounded
  Lanes<Real> recorded = {};
  std::array<std::int64_t, sum_lanes> places = {};  ///< in the result
  std::size_t count = 0;                            ///< lanes in use
};

/// The axes that a mean is taken over; empty: the op is none.
std::optional<std::vector<std::int64_t>> axes_of_mean(const Op& op, const Shape& shape) {
  if (const auto* mean = std::get_if<op::ReduceMean>(&op)) return mean->axes;
  if (!std::holds_alternative<op::GlobalAveragePool>(op)) return std::nullopt;
  std::vector<std::int64_t> axes(shape.size() < 2 ? 0 : shape.size() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}

/// The products of the numbers of a convolution.
class ConvolutionPlan {
public:
  /// `together`: channels whose products at one place of the window follow each other.
  /// Throws:    ShapeMismatch
  ConvolutionPlan(const op::Conv& conv, const Shape& input, const Shape& weights, const Shape& result,
                  std::int64_t together)
      : input_(input), result_(result), axes_(window_axes(conv.geometry, {weights.begin() + 2, weights.end()}, input)) {
    channels_ = weights[1];
    outputs_of_group_ = weights[0] / std::max<std::int64_t>(conv.groups, 1);
    for (const WindowAxis& axis : axes_) places_ *= axis.kernel;
    for (std::int64_t first = 0; first < channels_; first += together)
      for (std::int64_t place = 0; place < places_; ++place)
        for (std::int64_t c = first; c < std::min(first + together, channels_); ++c) terms_.push_back({c, place});
  }

  std::int64_t terms() const { return static_cast<std::int64_t>(terms_.size()); }

  /// Calls visit(x, w) with the places of the factors of term after term of element e; x is empty in the padding.
  template <class Visit>
  void for_each_term(std::int64_t e, const Visit& visit) const {
    std::vector<std::int64_t> out(axes_.size());
    for (std::size_t i = axes_.size(); i-- > 0; e /= axes_[i].output) out[i] = e % axes_[i].output;
    const std::int64_t channel = e % result_[1], sample = e / result_[1];
    const std::int64_t first = channel / outputs_of_group_ * channels_;
    for (const Term& term : terms_) {
      std::int64_t rest = term.place, offset = 0, stride = 1;
      bool is_inside = true;
      for (std::size_t i = axes_.size(); i-- > 0; rest /= axes_[i].kernel) {
        const std::int64_t at = out[i] * axes_[i].stride - axes_[i].before + rest % axes_[i].kernel * axes_[i].dilation;
        is_inside = is_inside && at >= 0 && at < axes_[i].input;
        offset += at * stride;
        stride *= axes_[i].input;
      }
      offset += (sample * input_[1] + first + term.channel) * stride;
      visit(is_inside ? std::optional(static_cast<std::size_t>(offset)) : std::nullopt,
            static_cast<std::size_t>((channel * channels_ + term.channel) * places_ + term.place));
    }
  }

private:
  struct Term {
    std::int64_t channel = 0, place = 0;
  };
  Shape input_, result_;
  std::vector<WindowAxis> axes_;
  std::int64_t channels_ = 1, outputs_of_group_ = 1, places_ = 1;
  std::vector<Term> terms_;
};

/// One evaluation of a product or a convolution, or of sums of numbers, which are products with 1.
template <class Real>
class RecordedSums {
public:
  RecordedSums(const Graph& graph, std::size_t node, const Trace& trace, std::int64_t together)
      : node_(graph.nodes[node]), a_(value_of(graph, node_.inputs[0], trace)), y_(trace.layers[node].output) {
    if (const auto* gemm = std::get_if<op::Gemm>(&node_.op)) {
      b_.emplace(value_of(graph, node_.inputs[1], trace));
      plan_ = plan_product(*gemm, a_.shape(), b_->shape());
      alpha_ = static_cast<Real>(gemm->alpha);
      if (node_.inputs.size() > 2) take_addend(value_of(graph, node_.inputs[2], trace), gemm->beta);
    } else if (const auto* matmul = std::get_if<op::MatMul>(&node_.op)) {
      b_.emplace(value_of(graph, node_.inputs[1], trace));
      plan_ = plan_product(*matmul, a_.shape(), b_->shape());
    } else if (const auto* conv = std::get_if<op::Conv>(&node_.op)) {
      b_.emplace(value_of(graph, node_.inputs[1], trace));
      convolution_.emplace(*conv, a_.shape(), b_->shape(), y_.shape(), together);
      plan_.batches = plan_.n = 1;
      plan_.m = size();
      plan_.k = convolution_->terms();
      if (node_.inputs.size() > 2) take_addend_of_channels(value_of(graph, node_.inputs[2], trace));
    } else {
      const std::optional<std::vector<std::int64_t>> axes = axes_of_mean(node_.op, a_.shape());
      is_mean_ = axes.has_value();
      groups_ = axes ? plan_groups(*axes, a_.shape()) : plan_groups(node_.op, a_.shape());
      plan_.batches = plan_.n = 1;
      plan_.m = static_cast<std::int64_t>(groups_.groups.size());
      plan_.k = static_cast<std::int64_t>(groups_.elements.size());
    }
    stored_ = stored_format(trace.arithmetic, graph.value(node_.output).type);
    fits_ = plan_.batches * plan_.m * plan_.n == size();
  }

  bool fits() const { return fits_; }
  const ProductPlan& plan() const { return plan_; }
  std::int64_t size() const { return element_count(y_.shape()); }
  bool is_product() const { return b_.has_value(); }
  bool has_fractions() const { return a_.format().has_value(); }
  /// The format that both operands are stored in; empty: they differ, or there is one.
  std::optional<FormatId> operand_format() const {
    return b_ && b_->format() == a_.format() ? a_.format() : std::nullopt;
  }
  bool is_mean() const { return is_mean_; }
  /// Axes of the result whose slices one kernel may compute: batches, rows and columns of a product; of a convolution
  /// samples, channels and places; else those of the result.
  Shape extents() const {
    if (b_ && !convolution_) return {plan_.batches, plan_.m, plan_.n};
    const Shape& shape = y_.shape();
    if (!convolution_) return shape;
    return {shape[0], shape[1], size() / std::max<std::int64_t>(shape[0] * shape[1], 1)};
  }
  bool has_addend() const { return !addend_.empty(); }
  Real alpha() const { return alpha_; }
  FormatId stored() const { return stored_; }
  /// Whether results are rounded from float32 sums to a format with fewer bits, which hides most of what tells members apart.
  bool hides_sums() const {
    return std::is_same_v<Real, float> && format(stored_).precision < format(FormatId::fp32).precision;
  }

  /// Whether operands are the same numbers when they are read in either way: all, or of many so many that are spread.
  bool reads_alike(const OperandChoice& one, const OperandChoice& other) const {
    const auto read = [](double x, const OperandChoice& choice) {
      return choice.format == as_they_are<Real>.format ? x : round_to(x, format(choice.format), choice.rounding);
    };
    const auto are_alike = [&](const Numbers& numbers) {
      constexpr std::size_t most = std::size_t{1} << 18;
      const auto count = static_cast<std::size_t>(element_count(numbers.shape()));
      for (std::size_t i = 0; i < count; i += count / most + 1)
        if (read(numbers[i], one) != read(numbers[i], other)) return false;
      return true;
    };
    return are_alike(a_) && (!b_ || are_alike(*b_));
  }

  /// Adds element e to a group unless a number of it is not finite, or is none of the type. Returns whether it did.
  bool append(std::int64_t e, LaneGroup<Real>& group) const {
    const std::int64_t j = e % plan_.n, i = e / plan_.n % plan_.m, batch = e / (plan_.n * plan_.m);
    const std::size_t lane = group.count;
    bool is_usable = std::isfinite(y_[static_cast<std::size_t>(e)]);
    const auto take = [&](double value) {
      const auto x = static_cast<Real>(value);
      is_usable = is_usable && std::isfinite(x) && static_cast<double>(x) == value;
      return x;
    };
    if (convolution_) {
      std::size_t place = lane;
      convolution_->for_each_term(e, [&](std::optional<std::size_t> x, std::size_t w) {
        group.a[place] = x ? take(a_[*x]) : Real(0);
        group.b[place] = take((*b_)[w]);
        place += sum_lanes;
      });
    }
    for (std::int64_t k = 0; k < plan_.k && is_usable && !convolution_; ++k) {
      const std::size_t place = static_cast<std::size_t>(k) * sum_lanes + lane;
      if (b_) {
        group.a[place] = take(a_[plan_.a_index(batch, i, k)]);
        group.b[place] = take((*b_)[plan_.b_index(batch, k, j)]);
      } else {
        group.a[place] =
            take(a_[groups_.groups[static_cast<std::size_t>(e)] + groups_.elements[static_cast<std::size_t>(k)]]);
        group.b[place] = Real(1);
      }
    }
    group.recorded[lane] = take(y_[static_cast<std::size_t>(e)]);
    group.addend[lane] = addend_.empty() ? Real(0) : addend_[static_cast<std::size_t>(e)];
    group.places[lane] = e;
    group.count += is_usable ? 1 : 0;
    return is_usable;
  }

private:
  void take_addend(const StoredTensor& stored, double beta) {
    const Numbers bias(stored);
    const BroadcastIndex index(bias.shape(), y_.shape());
    addend_.resize(static_cast<std::size_t>(size()));
    const auto factor = static_cast<Real>(beta);
    for (std::size_t i = 0; i < addend_.size(); ++i) addend_[i] = factor * static_cast<Real>(bias[index(i)]);
  }

  void take_addend_of_channels(const StoredTensor& stored) {
    const Numbers bias(stored);
    const Shape& shape = y_.shape();
    const std::size_t of_channel = static_cast<std::size_t>(size() / (shape[0] * shape[1]));
    const auto channels = static_cast<std::size_t>(shape[1]);
    for (std::size_t i = 0; i < static_cast<std::size_t>(size()); ++i)
      addend_.push_back(static_cast<Real>(bias[i / of_channel % channels]));
  }

  const Node& node_;
  Numbers a_, y_;
  std::optional<Numbers> b_;  ///< empty: sums of numbers
  ProductPlan plan_;
  std::optional<ConvolutionPlan> convolution_;
  GroupPlan groups_;
  std::vector<Real> addend_;
  Real alpha_ = 1;
  FormatId stored_ = FormatId::fp32;
  bool fits_ = false, is_mean_ = false;
};

/// A group as kernels read it, for every reading that was asked for.
template <class Real>
class GroupReadings {
public:
  GroupReadings(const LaneGroup<Real>& group, std::int64_t k) : group_(group), k_(k) {}

  const linalg::SumOperands<Real>& as(const OperandChoice& choice) {
    const auto [found, is_new] = read_.try_emplace({choice.format, choice.rounding});
    if (is_new) {
      found->second.k = k_;
      found->second.a = rounded_to(group_.a, choice);
      found->second.b = rounded_to(group_.b, choice);
      if constexpr (std::is_same_v<Real, float>) {
        found->second.a_of_unit.take(found->second.a, format(choice.format));
        found->second.b_of_unit.take(found->second.b, format(choice.format));
      }
    }
    return found->second;
  }

private:
  static std::vector<Real> rounded_to(const std::vector<Real>& values, const OperandChoice& choice) {
    std::vector<Real> read = values;
    if (choice.format == as_they_are<Real>.format) return read;
    const Format& target = format(choice.format);
    for (Real& x : read) x = static_cast<Real>(round_to(static_cast<double>(x), target, choice.rounding));
    return read;
  }

  const LaneGroup<Real>& group_;
  std::int64_t k_;
  std::map<std::pair<FormatId, Rounding>, linalg::SumOperands<Real>> read_;
};

/// Members whose chains are the same: how their operands are read, what adds up a chain, and which chains there are.
struct MembersOfChains {
  OperandChoice choice;
  PartEngine engine;
  bool from_addend = false;
  std::vector<ProductKernel> members;
};

std::int64_t block_of(const PartEngine& engine) {
  return engine.matrix_unit ? engine.matrix_unit->block : 1;
}

/// How many lanes of a group have the recorded number.
template <class Real>
class Matching {
public:
  Matching(const RecordedSums<Real>& sums, const LaneGroup<Real>& group) : sums_(sums), group_(group) {}

  /// How many members give other numbers than the first one before results are stored. `first`: empty, and then set.
  std::int64_t members_apart(const MembersOfChains& shared, GroupReadings<Real>& readings,
                             std::optional<Lanes<Real>>& first) {
    std::int64_t apart = 0;
    is_stored_ = false;
    for_each_member(shared, readings, [&](const Lanes<Real>& numbers) {
      if (!first) first = numbers;
      apart += std::equal(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(group_.count), first->begin())
                   ? 0
                   : 1;
    });
    is_stored_ = true;
    return apart;
  }

  /// By member: the lanes with the recorded number.
  std::vector<std::uint32_t> masks(const MembersOfChains& shared, GroupReadings<Real>& readings) const {
    std::vector<std::uint32_t> all;
    for_each_member(shared, readings, [&](const Lanes<Real>& numbers) {
      std::uint32_t equal = 0;
      for (std::size_t lane = 0; lane < group_.count; ++lane)
        equal |= (numbers[lane] == group_.recorded[lane] ? 1U : 0U) << lane;
      all.push_back(equal);
    });
    return all;
  }

  /// Adds what the first member gives in place of the recorded numbers. `before`: numbers of the result in earlier
  /// evaluations.
  void add_differences(const MembersOfChains& shared, GroupReadings<Real>& readings, std::int64_t before,
                       KernelDifference& difference) const {
    const Format& stored = format(sums_.stored());
    for_each_member(shared, readings, [&](const Lanes<Real>& numbers) {
      for (std::size_t lane = 0; lane < group_.count; ++lane)
        difference.add(numbers[lane], group_.recorded[lane], stored, before + group_.places[lane]);
    });
  }

private:
  /// Calls visit(numbers) with what each member gives.
  template <class Visit>
  void for_each_member(const MembersOfChains& shared, GroupReadings<Real>& readings, const Visit& visit) const {
    const std::int64_t k = sums_.plan().k;
    const SumSchedule schedule = schedule_of(shared.members.front().parts, k);
    const std::vector<Real> chains =
        linalg::KernelSums(shared.members.front(), schedule)
            .parts(readings.as(shared.choice), shared.from_addend ? group_.addend.data() : nullptr);
    const SumParts* parts = nullptr;
    SumJoins joins;
    for (const ProductKernel& member : shared.members) {
      if (parts == nullptr || !(*parts == member.parts)) joins = joins_of(member.parts, k);
      parts = &member.parts;
      visit(numbers(chains, joins, member));
    }
  }

  Lanes<Real> numbers(const std::vector<Real>& chains, const SumJoins& joins, const ProductKernel& member) const {
    Lanes<Real> sums = linalg::combined(chains, joins, linalg::PartRounding(member),
                                        member.addend == AddendPlace::before_parts ? group_.addend.data() : nullptr);
    for (std::size_t lane = 0; lane < group_.count; ++lane) {
      Real sum = sums_.alpha() == Real(1) ? sums[lane] : sums_.alpha() * sums[lane];
      if (member.addend == AddendPlace::last && sums_.has_addend()) sum += group_.addend[lane];
      sum = scaled(sum, member.scaling);
      sums[lane] = is_stored_ ? stored(sum) : sum;
    }
    return sums;
  }

  Real scaled(Real sum, Scaling scaling) const {
    const auto n = static_cast<Real>(sums_.plan().k);
    if (scaling == Scaling::none) return sum;
    return scaling == Scaling::divided ? sum / n : sum * (Real(1) / n);
  }

  Real stored(Real x) const {
    if (sums_.stored() == as_they_are<Real>.format || sums_.stored() == FormatId::fp64) return x;
    return static_cast<Real>(round_to(static_cast<double>(x), format(sums_.stored()), Rounding::nearest_even));
  }

  const RecordedSums<Real>& sums_;
  const LaneGroup<Real>& group_;
  bool is_stored_ = true;
};

/// The ways to deal out the terms of a sum, by the block of products that no part may cut.
class AllDealings {
public:
  AllDealings(std::int64_t k, bool of_products) : k_(k), of_products_(of_products) {}

  const std::vector<DealtTerms>& in_blocks(std::int64_t block) {
    const auto [found, is_new] = found_.try_emplace(block);
    if (is_new) found->second = of_products_ ? dealings_of(k_, block) : dealings_of_numbers(k_);
    return found->second;
  }

private:
  std::int64_t k_;
  bool of_products_;
  std::map<std::int64_t, std::vector<DealtTerms>> found_;
};

/// The members for sums of k terms by how their operands are read.
template <class Real>
class Family {
public:
  Family(const RecordedSums<Real>& sums, AllDealings& dealings) : sums_(sums), dealings_(dealings) {}

  /// Members whose operands are read in one way. Where all numbers are read so in a way before it, too, only units are left
  /// that it has not, or that take other exponents of subnormal numbers.
  std::vector<MembersOfChains> read_as(const OperandChoice& choice, GroupReadings<Real>& readings) {
    const linalg::SumOperands<Real>& read = readings.as(choice);
    std::vector<OperandChoice> alike;
    for (const auto& [other, known] : seen_)
      if (known->a == read.a && known->b == read.b && sums_.reads_alike(choice, other)) alike.push_back(other);
    seen_.emplace_back(choice, &read);
    std::vector<MembersOfChains> members;
    if (!sums_.is_product()) {
      if (alike.empty()) add(choice, {std::nullopt, false}, members);
      return members;
    }
    for (const PartEngine& engine : engines_of(choice.format)) {
      const auto has_it = [&](const OperandChoice& other) { return has_same_sums(engine, choice, other); };
      if (std::none_of(alike.begin(), alike.end(), has_it)) add(choice, engine, members);
    }
    return members;
  }

private:
  /// Whether what adds up a part does the same for numbers that are read in another way, which are the same.
  static bool has_same_sums(const PartEngine& engine, const OperandChoice& choice, const OperandChoice& other) {
    if (!engine.matrix_unit) return true;
    if (format(choice.format).min_exponent != format(other.format).min_exponent) return false;
    const TensorCore& unit = *engine.matrix_unit;
    const std::vector<PartEngine> engines = engines_of(other.format);
    return std::any_of(engines.begin(), engines.end(), [&](const PartEngine& one) {
      return one.matrix_unit && one.matrix_unit->block == unit.block && one.matrix_unit->sum_bits == unit.sum_bits &&
             one.matrix_unit->fraction_bits == unit.fraction_bits;
    });
  }

  void add(const OperandChoice& choice, const PartEngine& engine, std::vector<MembersOfChains>& members) {
    for (const DealtTerms& dealt : dealings_.in_blocks(block_of(engine))) add(choice, engine, dealt, members);
  }

  void add(const OperandChoice& choice, const PartEngine& engine, const DealtTerms& dealt,
           std::vector<MembersOfChains>& members) const {
    const std::int64_t k = sums_.plan().k;
    const auto chains = static_cast<std::int64_t>(joins_of(dealt.front(), k).chains);
    const bool are_single = chains == k && k > 1;  // a chain of rounded products, if added in sequence
    const bool has_addend = sums_.has_addend() && sums_.alpha() == Real(1);
    if (are_single && engine.fma && choice.format == as_they_are<Real>.format) return;
    MembersOfChains shared{choice, engine, false, {}};
    ProductKernel member;
    member.of_products = sums_.is_product();
    member.operands = choice.format;
    member.operand_rounding = choice.rounding;
    member.matrix_unit = engine.matrix_unit;
    member.fma = engine.fma;
    for (const SumParts& way : dealt) {
      member.parts = way;
      const SumJoins joins = joins_of(way, k);
      const bool in_sequence = way.combination == Combination::sequential;
      if (are_single && in_sequence && way.tree == SumTree::dealt && joins.within == 0) continue;
      add_scaled(member, shared.members);
      if (!in_sequence || joins.parts() < 2 || are_single) continue;
      if (has_addend) add_from(member, AddendPlace::before_parts, shared.members);
      if (way.dealing.kind == Dealing::Kind::contiguous) add_rounded(member, has_addend, shared.members);
    }
    if (!shared.members.empty()) members.push_back(shared);
    if (!has_addend || chains > 1) return;
    shared.from_addend = true;
    shared.members.clear();
    add_from(member, AddendPlace::chain_start, shared.members);
    members.push_back(std::move(shared));
  }

  static void add_from(ProductKernel member, AddendPlace place, std::vector<ProductKernel>& members) {
    member.addend = place;
    members.push_back(std::move(member));
  }

  void add_scaled(ProductKernel member, std::vector<ProductKernel>& members) const {
    if (!sums_.is_mean()) return members.push_back(std::move(member));
    for (const Scaling scaling : {Scaling::divided, Scaling::multiplied}) {
      member.scaling = scaling;
      members.push_back(member);
    }
  }

  /// Slices of products of bf16 or fp16 numbers may be rounded to these before they are added, and their sums too.
  static void add_rounded(ProductKernel member, bool has_addend, std::vector<ProductKernel>& members) {
    member.part_format = member.operands;
    if (member.operands != FormatId::bf16 && member.operands != FormatId::fp16) return;
    for (const bool of_sums : {false, true}) {
      member.rounds_sums_of_parts = of_sums;
      members.push_back(member);
      if (has_addend) add_from(member, AddendPlace::before_parts, members);
    }
  }

  const RecordedSums<Real>& sums_;
  AllDealings& dealings_;
  std::vector<std::pair<OperandChoice, const linalg::SumOperands<Real>*>> seen_;
};

/// Sum of squares of the distances of a group's recorded numbers from the exact sums of operands read in one way.
template <class Real>
double squared_distance(const RecordedSums<Real>& product, const LaneGroup<Real>& group,
                        const linalg::SumOperands<Real>& read) {
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

/// The ways to read operands, the declared one first, before it the narrow format that operands are stored in: they are the
/// same numbers in several ways. Sums in double have operands as they are.
template <class Real>
std::vector<OperandChoice> choices_for(const ArithmeticModel& declared, std::optional<FormatId> operand_format) {
  if (std::is_same_v<Real, double>) return {as_they_are<Real>};
  std::vector<OperandChoice> choices = operand_choices();
  const bool cuts = declared.tensor_core && declared.tensor_core->cuts_operands;
  std::stable_partition(choices.begin(), choices.end(), [&](const OperandChoice& choice) {
    return choice.format == declared.input && (choice.rounding == Rounding::toward_zero) == cuts;
  });
  if (operand_format && *operand_format != FormatId::fp32)
    std::stable_partition(choices.begin(), choices.end(),
                          [&](const OperandChoice& choice) { return choice.format == *operand_format; });
  return choices;
}

}  // namespace

void KernelDifference::add(double given, double recorded, const Format& stored, std::int64_t place) {
  constexpr double most = 0x1p53;
  if (given == recorded) return;
  const double distance = std::abs(given - recorded);
  ++differing;
  const double ulps = distance / ulp(recorded, stored);
  most_ulps = std::max(most_ulps, ulps <= most ? ulps : most);
  first = first < 0 ? place : std::min(first, place);
}

/// The search of one op in one order of its terms.
class KernelSearch::Work {
public:
  virtual ~Work() = default;
  virtual bool add(const Graph& graph, const Trace& evaluation) = 0;
  virtual KernelFinding finding() const = 0;
};

/// The same in sums of numbers of one type.
template <class Real>
class KernelSearch::WorkIn final : public KernelSearch::Work {
  /// Longer sums are read only in the ways that come near the recorded numbers.
  static constexpr std::int64_t longest_searched_whole = 256;
  static constexpr std::size_t most_alike = 8;

public:
  /// `together`: of convolutions, channels whose products at one place of the window follow each other; else 0.
  WorkIn(const Graph& graph, std::size_t node, std::int64_t most_work, std::int64_t together)
      : node_(node),
        most_work_(most_work),
        together_(together),
        products_left_(most_work > 0 ? std::int64_t{1} << 24 : std::int64_t{1} << 28) {
    if (!has_kernels(graph.nodes[node].op))
      finding_.why_not = "the family has products, sums, means, softmax, its logarithm and norms of rows alone";
    if (has_row_kernels(graph.nodes[node].op)) rows_.emplace(node, most_work);
  }

  bool add(const Graph& graph, const Trace& evaluation) override {
    if (rows_) return rows_->add(graph, evaluation);
    if (!finding_.why_not.empty() || (is_started_ && products_left_ <= 0)) return false;
    const RecordedSums<Real> product(graph, node_, evaluation, together_);
    finding_.k = product.plan().k;
    finding_.stored_in = product.operand_format();
    if (!product.has_fractions()) {
      finding_.why_not = "its numbers are integers";
      return false;
    }
    if (!is_started_ && is_long(product.plan().k)) {
      finding_.why_not = "sums of " + std::to_string(product.plan().k) + " terms take long to search";
      return false;
    }
    if (!product.fits() || product.plan().k < 1 || product.size() == 0) {
      if (!is_started_) finding_.why_not = "it has no sums";
      return false;
    }
    const std::int64_t compared = finding_.compared;
    Elements elements(product);
    if (product.hides_sums())
      elements.put_telling_first(nearest_choice(product, evaluation.arithmetic), numbers_to_rank());
    if (!is_started_ && !start(product, evaluation, elements)) return false;
    confirm(product, elements);
    count_apart(product);
    numbers_before_ += product.size();
    if (!mixed_.empty() && !are_edges(product)) mixed_.clear();
    given_.clear();
    count_left();
    return !(left_.empty() && mixed_.empty()) && finding_.compared - compared == product.size();
  }

  KernelFinding finding() const override {
    if (rows_) return rows_->finding();
    KernelFinding finding = found();
    if (together_ == 0) return finding;
    if (finding.kernel) finding.kernel->channels_together = together_;
    if (finding.nearest) finding.nearest->kernel.channels_together = together_;
    for (KernelShare& other : finding.others) other.kernel.channels_together = together_;
    for (ProductKernel& other : finding.alike) other.channels_together = together_;
    return finding;
  }

private:
  KernelFinding found() const {
    KernelFinding finding = finding_;
    if (!finding.why_not.empty()) return finding;
    if (!is_started_) {
      finding.why_not = std::is_same_v<Real, double> ? "no sum has finite operands and a finite result"
                                                     : "no sum has finite float32 operands and a finite result";
      return finding;
    }
    if (!mixed_.empty()) {
      finding.kernel = mixed_.front().member.members.front();
      finding.equal_bits = mixed_.front().numbers;
      for (std::size_t i = 1; i < mixed_.size(); ++i)
        finding.others.push_back({mixed_[i].member.members.front(), mixed_[i].numbers});
      finding.estimate_chance_hits = chance_hits(mixed_.back().numbers);
    } else if (!left_.empty()) {
      finding.kernel = left_.front().members.front();
      for (const MembersOfChains& shared : left_)
        for (const ProductKernel& member : shared.members)
          if (finding.alike.size() < most_alike) finding.alike.push_back(member);
      finding.alike.erase(finding.alike.begin());
      finding.equal_bits = finding.compared;
      finding.estimate_chance_hits = std::max(chance_hits(finding.compared), static_cast<double>(apart_));
    } else {
      finding.equal_bits = finding.compared - nearest_.differing;
      finding.nearest = nearest_;
      finding.nearest->kernel = furthest_->members.front();
    }
    return finding;
  }

  /// Whether sums of k terms have too many members to list them.
  bool is_long(std::int64_t k) const {
    constexpr std::int64_t most_terms = std::int64_t{1} << 18, fewest_members = 256;
    return k > most_terms || (most_work_ > 0 && k * fewest_members > most_work_ && k > longest_searched_whole);
  }

  /// A number of the evaluation at hand, where members give all numbers together.
  struct GivenNumber {
    std::int64_t place = 0;
    bool by_first = false, by_others = false;  ///< which members give it
  };

  /// One of several members that give all numbers together.
  struct MixedMember {
    MembersOfChains member;    ///< one
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
    explicit Elements(const RecordedSums<Real>& product) : product_(product) {
      const std::int64_t size = product.size();
      stride_ = static_cast<std::int64_t>(0.6180339887498949 * static_cast<double>(size)) | 1;
      while (std::gcd(stride_, size) != 1) stride_ += 2;
    }
    /// The next ones; empty at the end.
    LaneGroup<Real> next() {
      LaneGroup<Real> group;
      const auto numbers = static_cast<std::size_t>(product_.plan().k) * sum_lanes;
      group.a.resize(numbers);
      group.b.resize(numbers);
      for (; done_ < product_.size() && group.count < sum_lanes; ++done_) product_.append(next_place(), group);
      clear_unused(group);
      return group;
    }

    /// Of the next elements, `most` at most, those first whose exact sums lie next to where results are rounded the other way,
    /// by the size of their products: there members differ.
    void put_telling_first(const OperandChoice& choice, std::int64_t most) {
      const Format& stored = format(product_.stored());
      std::vector<std::pair<double, std::int64_t>> ranked;
      while (done_ < product_.size() && std::ssize(ranked) < most) {
        const LaneGroup<Real> group = next();
        GroupReadings<Real> readings(group, product_.plan().k);
        const linalg::SumOperands<Real>& read = readings.as(choice);
        for (std::size_t lane = 0; lane < group.count; ++lane) {
          double sum = 0.0, magnitudes = 0.0;
          for (std::size_t place = lane; place < read.a.size(); place += sum_lanes) {
            const double term = static_cast<double>(read.a[place]) * static_cast<double>(read.b[place]);
            sum += term;
            magnitudes += std::abs(term);
          }
          const double exact = static_cast<double>(product_.alpha()) * sum + static_cast<double>(group.addend[lane]);
          const double unit = ulp(exact, stored), units = std::abs(exact) / unit;
          ranked.emplace_back(std::abs(units - std::floor(units) - 0.5) * unit / magnitudes, group.places[lane]);
        }
      }
      std::sort(ranked.begin(), ranked.end());
      for (const auto& [distance, place] : ranked) first_.push_back(place);
      done_ -= std::ssize(first_);
    }

  private:
    std::int64_t next_place() {
      if (at_first_ < first_.size()) return first_[at_first_++];
      const std::int64_t place = place_;
      place_ = (place_ + stride_) % product_.size();
      return place;
    }

    void clear_unused(LaneGroup<Real>& group) const {
      for (std::size_t i = 0; i < group.a.size(); ++i)
        if (i % sum_lanes >= group.count) group.a[i] = group.b[i] = Real(0);
    }
    const RecordedSums<Real>& product_;
    std::int64_t stride_ = 1, place_ = 0, done_ = 0;
    std::vector<std::int64_t> first_;  ///< places that come before `place_`
    std::size_t at_first_ = 0;
  };

  /// Numbers whose exact sums are worth their time.
  std::int64_t numbers_to_rank() const {
    return std::max<std::int64_t>(products_left_ / 4 / std::max<std::int64_t>(finding_.k, 1), 256);
  }

  /// The way to read operands whose exact sums come nearest to some of the numbers.
  static OperandChoice nearest_choice(const RecordedSums<Real>& product, const ArithmeticModel& declared) {
    const LaneGroup<Real> group = Elements(product).next();
    GroupReadings<Real> readings(group, product.plan().k);
    OperandChoice nearest = as_they_are<Real>;
    double least = std::numeric_limits<double>::infinity();
    for (const OperandChoice& choice : choices_for<Real>(declared, product.operand_format())) {
      const double distance = squared_distance(product, group, readings.as(choice));
      if (distance < least) std::tie(nearest, least) = std::pair(choice, distance);
    }
    return nearest;
  }

  /// Counts the members left whose sums differ from those of the first before they are rounded to the format of results.
  void count_apart(const RecordedSums<Real>& product) {
    apart_ = 0;
    if (!product.hides_sums() || finding_.members_left < 2 || !mixed_.empty()) return;
    const LaneGroup<Real> group = Elements(product).next();
    GroupReadings<Real> readings(group, product.plan().k);
    Matching<Real> matching(product, group);
    std::optional<Lanes<Real>> first;
    for (const MembersOfChains& shared : left_) apart_ += matching.members_apart(shared, readings, first);
  }

  /// Compares all members with the first numbers. False where there is nothing to compare.
  bool start(const RecordedSums<Real>& product, const Trace& evaluation, Elements& elements) {
    constexpr std::size_t groups_at_first = 8;
    const std::int64_t k = product.plan().k;
    std::vector<LaneGroup<Real>> groups;
    for (LaneGroup<Real> group = elements.next(); group.count > 0; group = elements.next()) {
      groups.push_back(std::move(group));
      if (groups.size() == groups_at_first) break;
    }
    if (groups.empty()) return false;
    std::vector<GroupReadings<Real>> readings;
    for (const LaneGroup<Real>& group : groups) readings.emplace_back(group, k);
    is_started_ = true;
    if (!dealings_) dealings_.emplace(product.plan().k, product.is_product());
    Family<Real> family(product, *dealings_);
    std::vector<MembersOfChains> left;
    for (const OperandChoice& choice : near_choices(product, evaluation.arithmetic, groups, readings)) {
      left_ = family.read_as(choice, readings.front());
      if (most_work_ > 0 && static_cast<std::int64_t>(left_.size()) * k > most_work_) {
        finding_.why_not = "sums of " + std::to_string(k) + " terms take long to search";
        return false;
      }
      for (const MembersOfChains& shared : left_) finding_.family += static_cast<std::int64_t>(shared.members.size());
      for (std::size_t i = 0; i < groups.size() && !left_.empty(); ++i)
        keep_matching(product, groups[i], readings[i], static_cast<std::int64_t>(i * sum_lanes));
      left.insert(left.end(), std::make_move_iterator(left_.begin()), std::make_move_iterator(left_.end()));
    }
    left_ = std::move(left);
    for (const LaneGroup<Real>& group : groups) finding_.compared += static_cast<std::int64_t>(group.count);
    if (left_.empty()) mix(product, near_choices(product, evaluation.arithmetic, groups, readings), groups, readings);
    for (std::size_t i = 0; i < groups.size() && left_.empty(); ++i)
      Matching<Real>(product, groups[i]).add_differences(*furthest_, readings[i], numbers_before_, nearest_);
    count_left();
    return true;
  }

  /// Members that give all numbers together, where none does alone: the one that gives most, then the one that gives most of
  /// the rest. None where one of them might do so by chance, or where this would take long.
  void mix(const RecordedSums<Real>& product, const std::vector<OperandChoice>& choices,
           const std::vector<LaneGroup<Real>>& groups, std::vector<GroupReadings<Real>>& readings) {
    const std::int64_t most_steps = std::int64_t{1} << (most_work_ > 0 ? 25 : 29);
    constexpr double most_by_chance = 1e-3;
    constexpr std::size_t most_mixed = 3;
    if (finding_.family * product.plan().k * static_cast<std::int64_t>(groups.size()) > most_steps) return;
    if (product.hides_sums()) return;  // several members would give any numbers together
    std::vector<MembersOfChains> members;
    std::vector<std::vector<std::uint32_t>> masks;  // by member and group
    if (!dealings_) dealings_.emplace(product.plan().k, product.is_product());
    Family<Real> family(product, *dealings_);
    for (const OperandChoice& choice : choices)
      for (const MembersOfChains& shared : family.read_as(choice, readings.front()))
        add_masks(product, shared, groups, readings, members, masks);
    std::vector<std::uint32_t> open;
    for (const LaneGroup<Real>& group : groups) open.push_back((std::uint32_t{1} << group.count) - 1);
    const auto is_open = [&] { return std::any_of(open.begin(), open.end(), [](std::uint32_t m) { return m != 0; }); };
    std::vector<std::size_t> chosen;
    while (is_open() && mixed_.size() < most_mixed) {
      std::size_t best = 0;
      std::int64_t most = 0;
      for (std::size_t i = 0; i < masks.size(); ++i) {
        std::int64_t count = 0;
        for (std::size_t g = 0; g < open.size(); ++g) count += std::popcount(masks[i][g] & open[g]);
        if (count > most) std::tie(best, most) = std::pair(i, count);
      }
      if (mixed_.empty()) furthest_ = members[best];
      if (!(chance_hits(most) < most_by_chance)) break;
      mixed_.push_back({members[best], most});
      chosen.push_back(best);
      for (std::size_t g = 0; g < open.size(); ++g) open[g] &= ~masks[best][g];
    }
    if (is_open()) mixed_.clear();
    for (std::size_t g = 0; g < groups.size() && !mixed_.empty(); ++g) {
      std::uint32_t by_others = 0;
      for (std::size_t i = 1; i < chosen.size(); ++i) by_others |= masks[chosen[i]][g];
      append_given(groups[g], masks[chosen[0]][g], by_others);
    }
  }

  void append_given(const LaneGroup<Real>& group, std::uint32_t by_first, std::uint32_t by_others) {
    for (std::size_t lane = 0; lane < group.count; ++lane)
      given_.push_back({group.places[lane], ((by_first >> lane) & 1) != 0, ((by_others >> lane) & 1) != 0});
  }

  /// Whether the numbers that the first member of a mixture does not give lie at edges: in rows, columns or other slices of the
  /// result, in a block of it, or behind or before one place, of which the other members give every number that was compared.
  /// A single changed number may be given by some other member, but not all of its row or column.
  bool are_edges(const RecordedSums<Real>& product) const {
    constexpr double most_by_chance = 1e-3;
    const auto are_others = [&](const auto& is_inside) {
      std::int64_t inside = 0;
      for (const GivenNumber& one : given_) {
        if (!is_inside(one.place)) continue;
        if (!one.by_others) return false;
        ++inside;
      }
      return chance_hits(inside) < most_by_chance;
    };
    std::int64_t first = product.size(), last = -1;
    for (const GivenNumber& one : given_) {
      if (one.by_first) continue;
      first = std::min(first, one.place);
      last = std::max(last, one.place);
    }
    return last < 0 || are_others([&](std::int64_t place) { return place >= first; }) ||
           are_others([&](std::int64_t place) { return place <= last; }) || are_block_or_slices(product, are_others);
  }

  template <class AreOthers>
  bool are_block_or_slices(const RecordedSums<Real>& product, const AreOthers& are_others) const {
    const Shape shape = product.extents();
    const auto index_of = [&](std::int64_t place, std::size_t axis) {
      for (std::size_t a = shape.size(); --a > axis;) place /= shape[a];
      return static_cast<std::size_t>(place % shape[axis]);
    };
    std::vector<std::vector<char>> has_other(shape.size()), misses(shape.size());  // by axis and index
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      has_other[axis].assign(static_cast<std::size_t>(shape[axis]), 0);
      misses[axis] = has_other[axis];
      for (const GivenNumber& one : given_) {
        if (!one.by_first) has_other[axis][index_of(one.place, axis)] = 1;
        if (!one.by_others) misses[axis][index_of(one.place, axis)] = 1;
      }
    }
    const auto in_block = [&](std::int64_t place) {
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        if (has_other[axis][index_of(place, axis)] == 0) return false;
      return true;
    };
    const auto in_slice = [&](std::int64_t place) {
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        const std::size_t index = index_of(place, axis);
        if (has_other[axis][index] != 0 && misses[axis][index] == 0) return true;
      }
      return false;
    };
    const bool are_all_in_slices = std::all_of(
        given_.begin(), given_.end(), [&](const GivenNumber& one) { return one.by_first || in_slice(one.place); });
    return are_others(in_block) || (are_all_in_slices && are_others(in_slice));
  }

  static void add_masks(const RecordedSums<Real>& product, const MembersOfChains& shared,
                        const std::vector<LaneGroup<Real>>& groups, std::vector<GroupReadings<Real>>& readings,
                        std::vector<MembersOfChains>& members, std::vector<std::vector<std::uint32_t>>& masks) {
    const std::size_t first = masks.size();
    for (const ProductKernel& member : shared.members) {
      members.push_back({shared.choice, shared.engine, shared.from_addend, {member}});
      masks.emplace_back();
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::vector<std::uint32_t> of_group = Matching<Real>(product, groups[g]).masks(shared, readings[g]);
      for (std::size_t i = 0; i < of_group.size(); ++i) masks[first + i].push_back(of_group[i]);
    }
  }

  /// Counts what the members of a mixture give of a group; none are left where they do not give all.
  void confirm_mixed(const RecordedSums<Real>& product, const LaneGroup<Real>& group, GroupReadings<Real>& readings) {
    const Matching<Real> matching(product, group);
    std::uint32_t open = (std::uint32_t{1} << group.count) - 1, by_first = 0, by_others = 0;
    for (MixedMember& one : mixed_) {
      const std::uint32_t given = matching.masks(one.member, readings).front();
      (&one == &mixed_.front() ? by_first : by_others) |= given;
      one.numbers += std::popcount(given & open);
      open &= ~given;
    }
    append_given(group, by_first, by_others);
    if (open != 0) mixed_.clear();
  }

  /// Compares the members left with further numbers; where there are none, the one that came furthest.
  void confirm(const RecordedSums<Real>& product, Elements& elements) {
    for (LaneGroup<Real> group = elements.next(); group.count > 0 && products_left_ > 0; group = elements.next()) {
      GroupReadings<Real> readings(group, product.plan().k);
      const std::size_t members = left_.empty() ? mixed_.size() + 1 : left_.size();
      products_left_ -= product.plan().k * static_cast<std::int64_t>(members * sum_lanes);
      if (!left_.empty()) keep_matching(product, group, readings, finding_.compared);
      if (!mixed_.empty()) confirm_mixed(product, group, readings);
      if (left_.empty())
        Matching<Real>(product, group).add_differences(*furthest_, readings, numbers_before_, nearest_);
      finding_.compared += static_cast<std::int64_t>(group.count);
      count_left();
    }
  }

  /// The ways to read operands that are worth a search: all for short sums, else those not far from the recorded numbers.
  static std::vector<OperandChoice> near_choices(const RecordedSums<Real>& product, const ArithmeticModel& declared,
                                                 const std::vector<LaneGroup<Real>>& groups,
                                                 std::vector<GroupReadings<Real>>& readings) {
    if (!product.is_product()) return {as_they_are<Real>};
    std::vector<OperandChoice> choices = choices_for<Real>(declared, product.operand_format());
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
    for (const MembersOfChains& shared : left_)
      finding_.members_left += static_cast<std::int64_t>(shared.members.size());
  }

  /// Leaves the members that give all numbers of a group. `before`: numbers that they gave already.
  void keep_matching(const RecordedSums<Real>& product, const LaneGroup<Real>& group, GroupReadings<Real>& readings,
                     std::int64_t before) {
    const Matching<Real> matching(product, group);
    const auto all = static_cast<std::int64_t>(group.count);
    std::vector<MembersOfChains> left;
    for (MembersOfChains& shared : left_) {
      const std::vector<std::uint32_t> masks = matching.masks(shared, readings);
      std::vector<ProductKernel> members;
      for (std::size_t i = 0; i < masks.size(); ++i) {
        const std::int64_t equal = std::popcount(masks[i]);
        if (before + equal > most_equal_) {
          most_equal_ = before + equal;
          furthest_ = {shared.choice, shared.engine, shared.from_addend, {shared.members[i]}};
        }
        if (equal == all) {
          members.push_back(shared.members[i]);
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

  std::size_t node_;
  std::int64_t most_work_, together_;
  std::int64_t products_left_;  ///< to confirm with
  bool is_started_ = false;
  std::int64_t most_equal_ = -1;  ///< numbers that a member gave, with all before those that it was last compared with
  std::optional<MembersOfChains> furthest_;  ///< one member: that one, or the one that gives most of the first numbers
  KernelDifference nearest_;                 ///< of `furthest_`, where no member gives all numbers alone
  std::int64_t numbers_before_ = 0;          ///< of the result in earlier evaluations
  std::int64_t apart_ = 0;            ///< members left whose sums differ from the first one's before results are stored
  std::int64_t equal_of_others_ = 0;  ///< numbers of the first group that members give which do not give all of it
  std::int64_t others_ = 0;           ///< numbers that these were compared with
  std::optional<AllDealings> dealings_;
  std::vector<MembersOfChains> left_;  ///< members that give all numbers
  std::optional<RowSearch> rows_;      ///< of softmax and norms: does all
  std::vector<MixedMember> mixed_;     ///< where there are none: members that do so together
  std::vector<GivenNumber> given_;     ///< of the evaluation at hand, by these
  KernelFinding finding_;
};

bool has_kernels(const Op& op) {
  return std::holds_alternative<op::Gemm>(op) || std::holds_alternative<op::MatMul>(op) ||
         std::holds_alternative<op::Conv>(op) || std::holds_alternative<op::ReduceSum>(op) ||
         std::holds_alternative<op::ReduceMean>(op) || std::holds_alternative<op::GlobalAveragePool>(op) ||
         has_row_kernels(op);
}

/// The searches of one op: of a convolution one for each order of its terms.
class KernelSearch::Searches {
public:
  Searches(const Graph& graph, std::size_t node, std::int64_t most_work)
      : graph_(graph), node_(node), most_work_(most_work) {
    start(first_order());
  }

  bool add(const Trace& evaluation) { return add(graph_, evaluation); }

  bool add(const Graph& graph, const Trace& evaluation) {
    if (!is_started_ && evaluation.arithmetic.accumulator == FormatId::fp64 && !is_double_) {
      is_double_ = true;
      works_.clear();
      start(first_order());
    }
    bool gives_all = add_to(works_.front(), graph, evaluation);
    if (gives_all) works_.resize(1);  // others are no simpler
    if (!gives_all && works_.size() == 1 && !is_started_) start_other_orders(graph, evaluation);
    is_started_ = true;
    for (std::size_t i = 1; i < works_.size(); ++i) gives_all = add_to(works_[i], graph, evaluation) || gives_all;
    return gives_all;
  }

  KernelFinding finding() const {
    KernelFinding best = works_.front().search->finding();
    bool best_gives_all = works_.front().gives_all;
    std::int64_t family = 0;
    for (const OneOrder& order : works_) {
      const KernelFinding one = order.search->finding();
      family += one.family;
      const bool is_complete = one.kernel && order.gives_all && !best_gives_all;
      const bool is_better = one.kernel && (!best.kernel || (one.others.empty() && !best.others.empty())) &&
                             order.gives_all == best_gives_all;
      if (!is_complete && !is_better && (one.kernel || best.kernel || one.equal_bits <= best.equal_bits)) continue;
      best = one;
      best_gives_all = order.gives_all;
    }
    best.family = family;
    return best;
  }

private:
  struct OneOrder {
    std::unique_ptr<Work> search;
    bool gives_all = true;  ///< whether kernels in this order gave all numbers of every evaluation, each compared
  };

  std::int64_t first_order() const { return std::holds_alternative<op::Conv>(graph_.nodes[node_].op) ? 1 : 0; }

  void start(std::int64_t together) {
    works_.emplace_back();
    if (is_double_)
      works_.back().search = std::make_unique<WorkIn<double>>(graph_, node_, most_work_, together);
    else
      works_.back().search = std::make_unique<WorkIn<float>>(graph_, node_, most_work_, together);
  }

  /// Returns whether kernels in this order give all numbers of every evaluation so far.
  static bool add_to(OneOrder& order, const Graph& graph, const Trace& evaluation) {
    order.gives_all = order.search->add(graph, evaluation) && order.gives_all;
    return order.gives_all;
  }

  /// Those of a convolution of several channels.
  void start_other_orders(const Graph& graph, const Trace& evaluation) {
    const Node& node = graph.nodes[node_];
    if (!std::holds_alternative<op::Conv>(node.op)) return;
    const std::int64_t channels = value_of(graph, node.inputs[1], evaluation).shape()[1];
    for (const std::int64_t together : {4, 8, 16, 32})
      if (together < channels) start(together);
    if (channels > 1) start(all_channels);
  }

  const Graph& graph_;
  std::size_t node_;
  std::int64_t most_work_;
  bool is_started_ = false, is_double_ = false;
  std::vector<OneOrder> works_;
};

KernelSearch::KernelSearch(const Graph& graph, std::size_t node, std::int64_t most_work)
    : searches_(std::make_unique<Searches>(graph, node, most_work)) {}
KernelSearch::~KernelSearch() = default;
KernelSearch::KernelSearch(KernelSearch&&) noexcept = default;
KernelSearch& KernelSearch::operator=(KernelSearch&&) noexcept = default;

bool KernelSearch::add(const Trace& evaluation) {
  return searches_->add(evaluation);
}

bool KernelSearch::add(const Graph& graph, const Trace& evaluation) {
  return searches_->add(graph, evaluation);
}

KernelFinding KernelSearch::finding() const {
  return searches_->finding();
}

std::optional<ArithmeticModel> with_kernel(const ArithmeticModel& declared, const ProductKernel& kernel,
                                           std::int64_t k) {
  const bool reads_as_declared = kernel.operands == declared.input && kernel.operand_rounding == declared.rounding;
  const bool has_its_sums = declared.accumulator == FormatId::fp32 ||
                            (declared.accumulator == FormatId::fp64 && kernel.operands == FormatId::fp64);
  if (!kernel.of_products || !has_its_sums || kernel.addend != AddendPlace::last ||
      kernel.part_format != FormatId::fp32 || (!reads_as_declared && kernel.operands != FormatId::fp32))
    return std::nullopt;
  ArithmeticModel arithmetic = declared;
  arithmetic.input = kernel.operands;
  arithmetic.reduced_reduction.reset();
  if (kernel.matrix_unit && (!declared.tensor_core || declared.tensor_core->cuts_operands)) return std::nullopt;
  arithmetic.tensor_core = kernel.matrix_unit;
  if (!kernel.matrix_unit &&
      kernel.channels_together > 0) {  // a tree whose terms lie in another order than the exact sum's
    arithmetic.order = {SummationOrder::Kind::height, height_of(schedule_of(kernel.parts, k))};
  } else if (!kernel.matrix_unit) {
    const bool is_contiguous = kernel.parts.dealing.kind == Dealing::Kind::contiguous;
    const bool is_blocked = is_contiguous && kernel.parts == SumParts{kernel.parts.dealing};
    if (schedule_of(kernel.parts, k).joins.chains == 1) {
      arithmetic.order = {SummationOrder::Kind::sequential, 0, kernel.fma};
    } else if (is_blocked) {
      arithmetic.order = {SummationOrder::Kind::blocked, kernel.parts.dealing.run, kernel.fma};
    } else {
      arithmetic.order = {SummationOrder::Kind::dealt, 0, kernel.fma, kernel.parts};
    }
  }
  arithmetic.evidence = Evidence::measured;
  arithmetic.source = "the bits of the run: " + describe(kernel, k);
  return arithmetic;
}

std::optional<ArithmeticModel> with_finding(const ArithmeticModel& declared, const KernelFinding& finding) {
  if (!finding.tells()) return std::nullopt;
  const auto with = [&](ProductKernel kernel) {
    if (finding.stored_in == kernel.operands) {  // the declared way reads the same numbers
      kernel.operands = declared.input;
      kernel.operand_rounding = declared.rounding;
    }
    return with_kernel(declared, kernel, finding.k);
  };
  std::optional<ArithmeticModel> arithmetic = with(*finding.kernel);
  if (!arithmetic || finding.others.empty()) return arithmetic;
  std::string kernels = describe(*finding.kernel, finding.k);
  std::int64_t height = height_of(schedule_of(finding.kernel->parts, finding.k));
  for (const KernelShare& other : finding.others) {
    const std::optional<ArithmeticModel> of_other = with(other.kernel);
    if (!of_other || of_other->input != arithmetic->input || of_other->tensor_core || arithmetic->tensor_core)
      return std::nullopt;
    height = std::max(height, height_of(schedule_of(other.kernel.parts, finding.k)));
    kernels += ", or " + describe(other.kernel, finding.k);
  }
  arithmetic->order = {SummationOrder::Kind::height, height};
  arithmetic->source = "the bits of the run: " + kernels;
  return arithmetic;
}

}  // namespace driftbound
