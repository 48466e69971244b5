#include "bounds/adjoint/composite_norms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/matrices/matrix.hpp"
#include "bounds/theorems/norms.hpp"
#include "bounds/theorems/outward.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

/// Returns a lower bound of the exact sum of `terms` squares whose sum in double is `squares`. Returns 0 if `squares`
/// is not finite or below 2^-900, where underflow may have increased it.
double squares_down(double squares, std::size_t terms) {
  const double kept = 1.0 - 0x1p-52 * static_cast<double>(terms + 8);
  return squares >= 0x1p-900 && std::isfinite(squares) ? mul_down(squares, kept) : 0.0;
}

/// The pattern of means: sums over groups, each divided by the number of its terms.
struct Means {
  ValueId terms = 0, sums = 0, means = 0;  ///< the operand of the sum, its result, and the quotient
  GroupPlan plan;
  std::size_t length() const { return plan.elements.size(); }
};

/// The pattern sqrt(mean(c^2) + epsilon).
struct Root {
  Means squares;
  ValueId c = 0, argument = 0, root = 0;  ///< `argument`: the operand of the root
  double epsilon = 0.0;
  Magnitude epsilon_radius;
};

/// The pattern of shares: exp(s - mu), with one number mu per group, over the sum of the group; some exponentials may
/// be replaced by 0. Or one Softmax node.
struct Shares {
  ValueId shares = 0, s = 0;
  GroupPlan plan;
  bool is_one_node = false;  ///< a Softmax; the ids below are then unused
  /// s - mu; its exponentials; the same with some replaced by 0 (equal to `powers` if none is); their sum.
  ValueId exponents = 0, powers = 0, seen = 0, sum = 0;
  std::optional<ValueId> largest;  ///< mu, if it is the maximum of s in the group and no exponential is replaced
};

GroupPlan groups_of(const ReductionPlan& plan) {
  GroupPlan groups;
  for (std::int64_t o = 0; o < plan.outer; ++o)
    for (std::int64_t i = 0; i < plan.inner; ++i) groups.groups.push_back(plan.index(o, 0, i));
  for (std::int64_t j = 0; j < plan.length; ++j) groups.elements.push_back(plan.index(0, j, 0));
  return groups;
}

/// Recognises the maps of T-67 by their patterns of nodes in the flat graph. Each member returns nothing if the value
/// is not the result of such a map.
class Patterns {
public:
  explicit Patterns(const NormRequest& request)
      : program_(request.program), graph_(program_.flat().graph), known_(*request.known), shadow_(*request.shadow) {}

  std::optional<Means> means(ValueId id) const {
    const Node* over = made_by<op::Div>(id);
    const Node* sum = over == nullptr ? nullptr : made_by<op::ReduceSum>(over->inputs[0]);
    if (sum == nullptr || !std::get<op::ReduceSum>(sum->op).keep_axes) return std::nullopt;
    Means means{sum->inputs[0], sum->output, id, plan_groups(sum->op, program_.shape(sum->inputs[0]))};
    const bool is_mean = means.length() > 0 && is_exactly(over->inputs[1], static_cast<double>(means.length()));
    return is_mean && program_.shape(id) == program_.shape(sum->output) ? std::optional(means) : std::nullopt;
  }

  std::optional<Root> root(ValueId id) const {
    const Node* root = made_by<op::Sqrt>(id);
    if (root == nullptr) return std::nullopt;
    Root found;
    found.root = id;
    found.argument = root->inputs[0];
    ValueId mean = found.argument;
    if (const Node* sum = made_by<op::Add>(mean)) {
      const std::size_t constant = program_.varies(sum->inputs[0]) ? 1 : 0;
      const ValueId epsilon = sum->inputs[constant];
      if (!is_number(epsilon) || program_.shape(id) != program_.shape(sum->inputs[1 - constant])) return std::nullopt;
      found.epsilon = values(epsilon)[0];
      found.epsilon_radius = radius_at(known_.radii[epsilon].element, 0);
      mean = sum->inputs[1 - constant];
    }
    const std::optional<Means> squares = means(mean);
    const std::optional<ValueId> c = squares ? squared(squares->terms) : std::nullopt;
    if (!c || !(found.epsilon >= 0.0)) return std::nullopt;
    found.squares = *squares;
    found.c = *c;
    return found;
  }

  std::optional<Shares> shares(ValueId id) const {
    if (const Node* softmax = made_by<op::Softmax>(id)) {
      const ReductionPlan plan = plan_reduction(std::get<op::Softmax>(softmax->op), program_.shape(id));
      return Shares{id, softmax->inputs[0], groups_of(plan), true, 0, 0, 0, 0, std::nullopt};
    }
    const Node* quotient = made_by<op::Div>(id);
    return quotient == nullptr ? std::nullopt : shares_of(*quotient);
  }

private:
  std::optional<Shares> shares_of(const Node& quotient) const {
    const Node* sum = made_by<op::ReduceSum>(quotient.inputs[1]);
    if (sum == nullptr || !std::get<op::ReduceSum>(sum->op).keep_axes || sum->inputs[0] != quotient.inputs[0])
      return std::nullopt;
    Shares shares;
    shares.shares = quotient.output;
    shares.seen = shares.powers = quotient.inputs[0];
    if (const Node* hiding = made_by<op::Where>(shares.seen); hiding != nullptr && is_exactly(hiding->inputs[1], 0.0))
      shares.powers = hiding->inputs[0];
    const Node* power = made_by<op::Exp>(shares.powers);
    const Node* difference = power == nullptr ? nullptr : made_by<op::Sub>(power->inputs[0]);
    if (difference == nullptr) return std::nullopt;
    shares.s = difference->inputs[0];
    shares.exponents = difference->output;
    shares.sum = sum->output;
    shares.plan = plan_groups(sum->op, program_.shape(shares.seen));
    for (const ValueId id : {shares.s, shares.powers, shares.exponents, quotient.output})
      if (program_.shape(id) != program_.shape(shares.seen)) return std::nullopt;
    const Node* largest = made_by<op::ReduceMax>(difference->inputs[1]);
    const bool hides = shares.seen != shares.powers;
    if (largest != nullptr && !hides && largest->inputs[0] == shares.s) {
      const GroupPlan plan = plan_groups(largest->op, program_.shape(shares.s));
      if (plan.groups == shares.plan.groups && plan.elements == shares.plan.elements) shares.largest = largest->output;
    }
    const bool is_one_a_group = program_.shape(difference->inputs[1]) == program_.shape(shares.sum);
    return is_one_a_group ? std::optional(shares) : std::nullopt;
  }

  template <class Which>
  const Node* made_by(ValueId id) const {
    const std::optional<std::size_t> index = graph_.producer(id);
    const Node* node = index ? &graph_.nodes[*index] : nullptr;
    return node != nullptr && std::holds_alternative<Which>(node->op) ? node : nullptr;
  }
  const std::vector<double>& values(ValueId id) const { return shadow_.value(id).values; }
  bool is_number(ValueId id) const { return graph_.is_constant(id) && values(id).size() == 1; }
  bool is_exactly(ValueId id, double number) const {
    return is_number(id) && values(id)[0] == number && known_.radii[id].element.empty();
  }
  /// Returns c if the value is c * c or c^2.
  std::optional<ValueId> squared(ValueId id) const {
    if (const Node* product = made_by<op::Mul>(id))
      return product->inputs[0] == product->inputs[1] ? std::optional(product->inputs[0]) : std::nullopt;
    const Node* power = made_by<op::Pow>(id);
    return power != nullptr && std::get<op::Pow>(power->op).exponent == 2.0 ? std::optional(power->inputs[0])
                                                                            : std::nullopt;
  }

  const Program& program_;
  const Graph& graph_;
  const Deviation& known_;
  const Shadow& shadow_;
};

std::vector<ValueId> values_of(const Means& means) {
  return {means.terms, means.sums, means.means};
}

std::vector<ValueId> values_of(const Root& root) {
  std::vector<ValueId> values = values_of(root.squares);
  values.insert(values.end(), {root.c, root.argument, root.root});
  return values;
}

std::vector<ValueId> values_of(const Shares& shares) {
  std::vector<ValueId> values = {shares.shares, shares.s};
  if (!shares.is_one_node) values.insert(values.end(), {shares.exponents, shares.powers, shares.seen, shares.sum});
  if (shares.largest) values.push_back(*shares.largest);
  return values;
}

template <class Pattern>
std::vector<ValueId> values_of(const std::optional<Pattern>& pattern) {
  return pattern ? values_of(*pattern) : std::vector<ValueId>();
}

/// The bounds (b) to (e) and (g) of T-67, one number per row.
class Norms67 {
public:
  Norms67(const NormRequest& request)
      : program_(request.program),
        view_(request.view),
        known_(*request.known),
        shadow_(*request.shadow),
        patterns_(request) {}

  using Norms = std::optional<std::vector<double>>;

  Norms operator()(const op::Sub&) const {
    const ValueId x = view_.node->inputs[0];
    const std::optional<Means> means = patterns_.means(view_.node->inputs[1]);
    if (!means || means->terms != x || program_.shape(x) != program_.shape(view_.node->output)) return std::nullopt;
    return each_row([&](std::size_t row) {
      return theorems::norm_of_centred(norm(x, row), means->length(), error_norm(means->sums, row),
                                       error_norm(means->means, row));
    });
  }

  Norms operator()(const op::Sqrt&) const {
    const std::optional<Root> root = patterns_.root(view_.node->output);
    if (!root) return std::nullopt;
    const double spread = sqrt_down(static_cast<double>(root->squares.length()));
    return each_row([&](std::size_t row) {
      std::vector<double> errors;
      for (const std::size_t g : of_row(row, root->squares.plan))
        errors.push_back(root_error(*root, g, row, Magnitude()).value());
      return divide_up(norm(root->c, row), spread) + theorems::norm_of_vector(errors);
    });
  }

  Norms operator()(const op::Div&) const {
    const std::optional<Root> root = patterns_.root(view_.node->inputs[1]);
    if (root && root->c == view_.node->inputs[0] && program_.shape(root->c) == program_.shape(view_.node->output))
      return normalised(*root);
    return shares();
  }

  Norms operator()(const op::Softmax&) const { return shares(); }

  Norms operator()(const auto&) const { return std::nullopt; }

private:
  std::size_t rows() const { return static_cast<std::size_t>(program_.rows(view_.node->output)); }

  template <class Rule>
  std::vector<double> each_row(const Rule& rule) const {
    std::vector<double> norms;
    for (std::size_t row = 0; row < rows(); ++row) norms.push_back(rule(row).value());
    return norms;
  }

  Magnitude norm(ValueId id, std::size_t row) const {
    const std::vector<double>& norms = known_.radii[id].norm;
    return norms.empty() ? Magnitude() : Magnitude(norms[norms.size() == 1 ? 0 : row]);
  }
  const std::vector<double>& values(ValueId id) const { return shadow_.value(id).values; }
  Magnitude local(ValueId id, std::size_t i) const { return radius_at(known_.added[id], i); }
  Magnitude error_norm(ValueId id, std::size_t row) const {
    const std::vector<double>& errors = known_.added[id];
    const std::size_t size = errors.size() / rows();
    return theorems::norm_of_vector(std::span(errors).subspan(row * size, size));
  }

  std::vector<std::size_t> of_row(std::size_t row, const GroupPlan& plan) const {
    const std::size_t size = plan.groups.size() / rows();
    std::vector<std::size_t> groups(size);
    for (std::size_t k = 0; k < size; ++k) groups[k] = row * size + k;
    return groups;
  }

  template <class Element>
  void in_group(const GroupPlan& plan, std::size_t g, const Element& element) const {
    for (const std::size_t offset : plan.elements) element(plan.groups[g] + offset);
  }

  /// Returns N_g of T-67: a bound of the 2-norm of the difference of both trajectories in one group.
  Magnitude group_norm(ValueId id, const GroupPlan& plan, std::size_t g, std::size_t row) const {
    const std::vector<double>& radii = known_.radii[id].element;
    if (radii.empty()) return {};
    std::vector<double> group;
    in_group(plan, g, [&](std::size_t i) { group.push_back(radii[i]); });
    return std::min(norm(id, row), theorems::norm_of_vector(group));
  }

  /// Returns a lower bound of s*_g of T-67: the exact root at the shadow's c.
  double centre_root(const Root& root, std::size_t g) const {
    double squares = 0.0;
    in_group(root.squares.plan, g, [&](std::size_t i) { squares += values(root.c)[i] * values(root.c)[i]; });
    const double mean =
        div_down(squares_down(squares, root.squares.length()), static_cast<double>(root.squares.length()));
    return sqrt_down(add_down(mean, root.epsilon));
  }
  /// Returns r_g of T-67: a lower bound of the exact root at every c within its radius.
  double least_root(const Root& root, std::size_t g, std::size_t row) const {
    const Magnitude norm = group_norm(root.c, root.squares.plan, g, row);
    const Magnitude moved = divide_up(norm, sqrt_down(static_cast<double>(root.squares.length())));
    return std::max(sub_down(centre_root(root, g), moved.value()), sqrt_down(root.epsilon));
  }
  /// Returns a bound of the error of the root due to the local errors of both trajectories: H_g of T-67 plus `own`, the
  /// local error of the root's own node.
  Magnitude root_error(const Root& root, std::size_t g, std::size_t row, Magnitude own) const {
    Magnitude sum = local(root.squares.sums, g);
    in_group(root.squares.plan, g, [&](std::size_t i) { sum += local(root.squares.terms, i); });
    Magnitude argument = divide_up(sum, static_cast<double>(root.squares.length())) + local(root.squares.means, g);
    if (root.argument != root.squares.means) argument += local(root.argument, g) + root.epsilon_radius;
    return theorems::error_of_root(argument, least_root(root, g, row), own);
  }

  std::vector<double> normalised(const Root& root) const {
    const auto terms = static_cast<double>(root.squares.length());
    return each_row([&](std::size_t row) {
      std::vector<double> moved, wrong;
      double least = std::numeric_limits<double>::infinity();
      for (const std::size_t g : of_row(row, root.squares.plan)) {
        const double centre = centre_root(root, g);
        least = std::min(least, centre);
        moved.push_back(
            theorems::norm_of_normalised(terms, centre, group_norm(root.c, root.squares.plan, g, row)).value());
        const Magnitude error = root_error(root, g, row, local(root.root, g));
        wrong.push_back(theorems::norm_of_wrong_root(terms, least_root(root, g, row), error).value());
      }
      const bool is_near = norm(root.c, row).value() < mul_down(sqrt_down(terms), least);
      Magnitude together = theorems::norm_of_vector(moved);
      if (is_near) together = std::min(together, theorems::norm_of_normalised(terms, least, norm(root.c, row)));
      return together + theorems::norm_of_vector(wrong);
    });
  }

  /// Returns l_g of T-67: a bound, in the 2-norm of one group, of the effect of the local errors of all nodes before
  /// the final quotient. It is 0 for a Softmax node.
  Magnitude share_error(const Shares& shares, std::size_t g) const {
    if (shares.is_one_node) return {};
    ShareErrors errors;
    std::vector<double> powers;
    in_group(shares.plan, g, [&](std::size_t i) {
      Magnitude power = local(shares.powers, i);
      if (shares.seen != shares.powers) power += local(shares.seen, i);
      powers.push_back(power.value());
      errors.powers_and_sum += power;
      errors.exponents = std::max(errors.exponents, local(shares.exponents, i));
    });
    errors.powers_norm = theorems::norm_of_vector(powers);
    errors.powers_and_sum += local(shares.sum, g);
    const double least = sub_down(values(shares.sum)[g], radius_at(known_.radii[shares.sum].element, g).value());
    double least_sum = theorems::least_sum_of_powers(least, errors);
    if (shares.largest) least_sum = std::max(least_sum, sub_down(1.0, local(*shares.largest, g).value()));
    return theorems::norm_of_share_errors(errors, least_sum);
  }
  Magnitude share_errors(const Shares& shares, std::size_t row) const {
    std::vector<double> errors;
    for (const std::size_t g : of_row(row, shares.plan)) errors.push_back(share_error(shares, g).value());
    return theorems::norm_of_vector(errors);
  }
  /// Returns a bound of the distance of a stored share of the shadow from the exact share at the shadow's s.
  Magnitude off_centre(const Shares& shares, Magnitude share_error, std::size_t i) const {
    return share_error + radius_at(shadow_.error[shares.shares], i);
  }
  Magnitude largest_radius(const Shares& shares, std::size_t g) const {
    Magnitude largest;
    in_group(shares.plan, g,
             [&](std::size_t i) { largest = std::max(largest, radius_at(known_.radii[shares.s].element, i)); });
    return largest;
  }

  Norms shares() const {
    const std::optional<Shares> shares = patterns_.shares(view_.node->output);
    if (!shares) return std::nullopt;
    return each_row([&](std::size_t row) { return moved_shares(*shares, row) + share_errors(*shares, row); });
  }

  Magnitude moved_shares(const Shares& shares, std::size_t row) const {
    std::vector<double> moved;
    Magnitude steepest;
    for (const std::size_t g : of_row(row, shares.plan)) {
      Magnitude share, spread;
      const Magnitude error = share_error(shares, g), radius = largest_radius(shares, g);
      in_group(shares.plan, g, [&](std::size_t i) {
        const Magnitude off = off_centre(shares, error, i), p = Magnitude(view_.y(i)) + off;
        share = std::max(share, p);
        spread = std::max(spread, p * (Magnitude(sub_up(1.0, view_.y(i))) + off));
      });
      steepest = std::max(steepest, theorems::norm_of_softmax_near(Magnitude(1.0), share, spread, radius));
      const Magnitude of_group =
          theorems::norm_of_softmax_near(group_norm(shares.s, shares.plan, g, row), share, spread, radius);
      moved.push_back(std::min(of_group, sqrt_up(Magnitude(2.0))).value());
    }
    return std::min(steepest * norm(shares.s, row), theorems::norm_of_vector(moved));
  }

  /// Returns ‖(p_j ‖v_j - o‖)_j‖ + ‖p‖ ‖sum p_j v_j - o‖ of T-67 (g) for one row of shares, rounded up, where o is the
  /// stored result of that row.
  Magnitude spread_of(const Shares& shares, const ProductPlan& plan, std::size_t g) const {
    const auto n = static_cast<std::size_t>(plan.n), k = static_cast<std::size_t>(plan.k);
    const std::size_t m = static_cast<std::size_t>(plan.m), batch = g / m;
    const std::span<const double> o = std::span(view_.output->values).subspan(g * n, n);
    const std::vector<double>& v = view_.input(1).values;
    const Magnitude size = theorems::norm_of_vector(o), error = share_error(shares, g);
    std::vector<double> parts, p;
    Magnitude rest;
    for (std::size_t j = 0; j < k; ++j) {
      double squares = 0.0;
      for (std::size_t c = 0; c < n; ++c) {
        const double d = v[plan.b_index(static_cast<std::int64_t>(batch), static_cast<std::int64_t>(j),
                                        static_cast<std::int64_t>(c))] -
                         o[c];
        squares += d * d;
      }
      const Magnitude distance = sqrt_up(Magnitude(outward(squares, plan.n + 3, plan.n)));
      const std::size_t i = g * k + j;
      const Magnitude off = off_centre(shares, error, i);
      p.push_back((Magnitude(values(shares.shares)[i]) + off).value());
      parts.push_back((Magnitude(p.back()) * distance).value());
      rest += off * (size + distance);
    }
    const std::vector<double>& own = shadow_.error[view_.node->output];
    if (!own.empty()) rest += theorems::norm_of_vector(std::span(own).subspan(g * n, n));
    return theorems::norm_of_vector(parts) + theorems::norm_of_vector(p) * rest;
  }

public:
  Norms attended(const AttentionFactors& factors) const {
    const op::MatMul* product = std::get_if<op::MatMul>(&view_.node->op);
    const std::optional<Shares> shares = product == nullptr ? std::nullopt : patterns_.shares(view_.node->inputs[0]);
    if (!shares || !are_rows(*shares, plan_product(*product, view_.input(0).shape, view_.input(1).shape)))
      return std::nullopt;
    const ProductPlan plan = plan_product(*product, view_.input(0).shape, view_.input(1).shape);
    const ValueId weights = view_.node->inputs[0];
    return each_row([&](std::size_t row) {
      Magnitude steepest;
      for (const std::size_t g : of_row(row, shares->plan)) {
        const Magnitude spread = spread_of(*shares, plan, g);
        steepest = std::max(steepest, theorems::norm_of_attended(spread, Magnitude(1.0), largest_radius(*shares, g)));
      }
      const Magnitude wrong = share_errors(*shares, row) + error_norm(weights, row);
      const MatrixFactor p{factors.weights + wrong, norm(weights, row)};
      const Magnitude values_moved = norm(view_.node->inputs[1], row);
      return steepest * norm(shares->s, row) +
             theorems::norm_of_spectral_product(p, 1, {Magnitude(), values_moved}, factors.uses_of_values) +
             wrong * (factors.values + values_moved);
    });
  }

private:
  /// Whether the groups of shares are the rows of the product's left matrices, stored contiguously.
  static bool are_rows(const Shares& shares, const ProductPlan& plan) {
    const auto k = static_cast<std::size_t>(plan.k);
    const auto lines = static_cast<std::size_t>(plan.batches * plan.m);
    if (shares.plan.elements.size() != k || shares.plan.groups.size() != lines || plan.a_col != 1 ||
        plan.a_row != plan.k)
      return false;
    for (std::size_t batch = 0; batch < static_cast<std::size_t>(plan.batches); ++batch)
      if (plan.a_batch[batch] != static_cast<std::int64_t>(batch) * plan.m * plan.k) return false;
    for (std::size_t j = 0; j < k; ++j)
      if (shares.plan.elements[j] != j) return false;
    for (std::size_t g = 0; g < lines; ++g)
      if (shares.plan.groups[g] != g * k) return false;
    return true;
  }

  const Program& program_;
  const NodeView& view_;
  const Deviation& known_;
  const Shadow& shadow_;
  const Patterns patterns_;
};

}  // namespace

std::vector<ValueId> values_of_composite(const NormRequest& request) {
  const Patterns patterns(request);
  const Node& node = *request.view.node;
  std::vector<ValueId> values;
  if (std::holds_alternative<op::Sub>(node.op)) values = values_of(patterns.means(node.inputs[1]));
  if (std::holds_alternative<op::Sqrt>(node.op)) values = values_of(patterns.root(node.output));
  if (std::holds_alternative<op::Div>(node.op)) values = values_of(patterns.root(node.inputs[1]));
  const bool makes_shares = std::holds_alternative<op::Div>(node.op) || std::holds_alternative<op::Softmax>(node.op);
  if (values.empty() && makes_shares) values = values_of(patterns.shares(node.output));
  if (std::holds_alternative<op::MatMul>(node.op)) {
    values = values_of(patterns.shares(node.inputs[0]));
    if (!values.empty()) values.push_back(node.inputs[1]);
  }
  std::erase(values, node.output);
  return values;
}

std::optional<std::vector<double>> composite_norms(const NormRequest& request) {
  if (request.known == nullptr || request.shadow == nullptr) return std::nullopt;
  return std::visit(Norms67(request), request.view.node->op);
}

std::optional<std::vector<double>> attended_norms(const NormRequest& request, const AttentionFactors& factors) {
  if (request.known == nullptr || request.shadow == nullptr) return std::nullopt;
  return Norms67(request).attended(factors);
}

}  // namespace driftbound::bounds
