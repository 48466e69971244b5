#include "bounds/adjoint/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "bounds/nodes/transpose.hpp"
#include "bounds/theorems/outward.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/trajectories.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {
namespace {

/// The stored adjoint d of one value, and a bound of its defect in T-60.
struct Adjoint {
  std::vector<double> d;
  std::vector<double> defect;  ///< tau; empty: all 0

  bool is_present() const { return !d.empty(); }

  void add(Transposed share, const RowKernels& rows) {
    if (!is_present()) {
      d = std::move(share.values);
      defect = std::move(share.defect);
      return;
    }
    if (defect.empty()) defect.assign(d.size(), 0.0);
    rows.add_shares(d.data(), defect.data(), share.values.data(), share.defect.empty() ? nullptr : share.defect.data(),
                    d.size());
  }
};

/// Which elements of every value a target depends on, by the paths of the graph.
class Reach {
public:
  Reach(const Program& program, const Direction& c) : program_(program), reached_(program.size()) {
    for (ValueId id = 0; id < program.size(); ++id)
      reached_[id].assign(static_cast<std::size_t>(element_count(program.shape(id))), 0);
    for (const auto& [id, weights] : c)
      for (std::size_t i = 0; i < weights.size(); ++i)
        if (weights[i] != 0.0) reached_[id][i] = 1;
    for (std::size_t node = program.nodes().size(); node-- > 0;) pull(program.nodes()[node]);
  }

  const std::vector<char>& operator[](ValueId id) const { return reached_[id]; }

private:
  void pull(const Node& node) {
    const bool is_elementwise = std::visit(
        []<class T>(const T&) {
          return ElementwiseUnary<T> || ElementwiseBinary<T> || OneOf<T, op::Clip, op::Neg, op::Cast, op::Choice>;
        },
        node.op);
    const bool is_selection = std::visit([]<class T>(const T&) { return Selection<T>; }, node.op);
    if (is_elementwise) {
      pull_elements(node);
    } else if (is_selection) {
      pull_selection(node);
    } else {
      pull_rows(node);
    }
  }

  void pull_elements(const Node& node) {
    const std::vector<char>& y = reached_[node.output];
    for (const ValueId id : node.inputs) {
      const BroadcastIndex index(program_.shape(id), program_.shape(node.output));
      for (std::size_t i = 0; i < y.size(); ++i)
        if (y[i] != 0) reached_[id][index(i)] = 1;
    }
  }

  void pull_selection(const Node& node) {
    std::vector<Shape> shapes;
    for (const ValueId id : node.inputs) shapes.push_back(program_.shape(id));
    const std::vector<ElementSource> sources = plan_selection(node.op, shapes, program_.shape(node.output));
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (!sources[i].is_fill() && reached_[node.output][i] != 0)
        reached_[node.inputs[sources[i].input]][sources[i].index] = 1;
  }

  /// All elements of a row of an operand, if one of that row of the result is reached.
  void pull_rows(const Node& node) {
    const std::vector<char>& y = reached_[node.output];
    const auto rows = static_cast<std::size_t>(program_.rows(node.output));
    const std::size_t size = y.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      const auto first = y.begin() + static_cast<std::ptrdiff_t>(row * size);
      if (std::none_of(first, first + static_cast<std::ptrdiff_t>(size), [](char one) { return one != 0; })) continue;
      for (const ValueId id : node.inputs) {
        std::vector<char>& x = reached_[id];
        const bool has_this_row = program_.rows(id) == program_.rows(node.output);
        const std::size_t of_operand = has_this_row ? x.size() / rows : x.size();
        const auto begin = x.begin() + static_cast<std::ptrdiff_t>(has_this_row ? row * of_operand : 0);
        std::fill(begin, begin + static_cast<std::ptrdiff_t>(of_operand), 1);
      }
    }
  }

  const Program& program_;
  std::vector<std::vector<char>> reached_;
};

class Sweep {
public:
  /// All deviations must have the same slopes.
  Sweep(const Program& program, const Shadow& shadow, std::span<const Deviation* const> deviations, const Direction& c,
        const Setting& setting, std::vector<std::vector<double>>* kept)
      : program_(program),
        c_(c),
        shadow_(shadow),
        deviations_(deviations),
        setting_(setting),
        adjoints_(program.size()),
        kept_(kept) {
    if (kept_ != nullptr) kept_->assign(program.size(), {});
    const auto rows = static_cast<std::size_t>(program.rows());
    Certificate empty;
    empty.total.assign(rows, 0.0);
    empty.local.assign(rows, 0.0);
    empty.remainder.assign(rows, 0.0);
    empty.layers.assign(program.flat().of_node.empty() ? 0 : program.flat().of_node.back() + 1,
                        std::vector<double>(rows, 0.0));
    certificates_.assign(deviations.size(), empty);
    for (const auto& [value, tensor] : c) adjoints_[value].add({tensor, {}}, row_kernels());
  }

  void pull_back(std::size_t index) {
    const Node& node = program_.nodes()[index];
    if (!adjoints_[node.output].is_present()) return;
    charge(node.output, program_.flat().of_node[index]);
    std::vector<bool> wanted;
    for (const ValueId id : node.inputs) wanted.push_back(program_.varies(id));
    const NodeView view = shadow_.view_of(node);
    std::vector<Transposed> shares =
        transposed(view, deviations_.front()->slopes[index], adjoints_[node.output].d, wanted, setting_);
    for (std::size_t slot = 0; slot < shares.size(); ++slot) {
      if (wanted[slot]) adjoints_[node.inputs[slot]].add(std::move(shares[slot]), row_kernels());
    }
    if (kept_ != nullptr) (*kept_)[node.output] = std::move(adjoints_[node.output].d);
    adjoints_[node.output] = {};
  }

  void charge_input(ValueId id) {
    if (adjoints_[id].is_present()) charge(id, std::nullopt);
  }

  std::vector<Certificate> result() && { return std::move(certificates_); }

private:
  /// Adds |d|.(sigma + kappa) + tau.E of one value to the certificates.
  void charge(ValueId id, std::optional<std::size_t> layer) {
    const Adjoint& adjoint = adjoints_[id];
    for (std::size_t which = 0; which < deviations_.size(); ++which) {
      const Deviation& deviation = *deviations_[which];
      Certificate& certificate = certificates_[which];
      for (std::size_t row = 0; row < certificate.total.size(); ++row) {
        const std::span<const double> d = row_of(id, adjoint.d, row);
        const Magnitude local = charged(id, d, deviation.added[id], row);
        const Magnitude remainder = charged(id, d, deviation.remainder[id], row);
        const Magnitude defect = charged(id, row_of(id, adjoint.defect, row), deviation.radii[id].element, row);
        add(certificate.total[row], theorems::charge(local, remainder, defect));
        add(certificate.local[row], local);
        add(certificate.remainder[row], remainder);
        if (layer) add(certificate.layers[*layer][row], local + remainder);
      }
    }
  }

  /// Returns an upper bound of sum |d_i| x_i by T-08. If some x_i is infinite the sum is infinite, even where d_i = 0,
  /// unless no path leads from that element to the target.
  Magnitude charged(ValueId id, std::span<const double> d, const std::vector<double>& x, std::size_t row) {
    if (x.empty() || d.empty()) return Magnitude();
    const std::span<const double> of_row = row_of(id, x, row);
    double sum = row_kernels().weighted_sum(d.data(), of_row.data(), d.size());
    if (!std::isfinite(sum)) {
      if (!reach_) reach_.emplace(program_, c_);
      std::vector<double> reached(of_row.begin(), of_row.end());
      const std::span<const char> is_reached = row_of(id, (*reach_)[id], row);
      for (std::size_t i = 0; i < reached.size(); ++i)
        if (is_reached[i] == 0) reached[i] = 0.0;
      sum = row_kernels().weighted_sum(d.data(), reached.data(), d.size());
    }
    const auto size = static_cast<std::int64_t>(d.size());
    return Magnitude(theorems::outward(sum, size + 1, size));
  }

  template <class T>
  std::span<const T> row_of(ValueId id, const std::vector<T>& values, std::size_t row) const {
    if (program_.rows(id) == 1 || values.empty()) return values;
    const std::size_t size = values.size() / static_cast<std::size_t>(program_.rows(id));
    return std::span<const T>(values).subspan(row * size, size);
  }

  static void add(double& sum, Magnitude more) { sum = (Magnitude(sum) + more).value(); }

  const Program& program_;
  const Direction& c_;
  std::optional<Reach> reach_;  ///< found where an error is infinite
  const Shadow& shadow_;
  std::span<const Deviation* const> deviations_;
  const Setting& setting_;
  std::vector<Adjoint> adjoints_;
  std::vector<std::vector<double>>* kept_;
  std::vector<Certificate> certificates_;
};

bool have_same_slopes(const Deviation& a, const Deviation& b) {
  for (std::size_t node = 0; node < a.slopes.size(); ++node)
    if (!theorems::same_slopes(a.slopes[node], b.slopes[node])) return false;
  return true;
}

/// Groups the positions of deviations with the same slopes. One adjoint serves each group, since a remainder is valid
/// only with the slopes that it was computed for.
std::vector<std::vector<std::size_t>> by_slopes(std::span<const Deviation> deviations) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t which = 0; which < deviations.size(); ++which) {
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const std::vector<std::size_t>& group) {
      return have_same_slopes(deviations[which], deviations[group.front()]);
    });
    if (alike != groups.end()) {
      alike->push_back(which);
    } else {
      groups.push_back({which});
    }
  }
  return groups;
}

}  // namespace

Direction direction_of(const Program& program, const Shadow& shadow, const std::vector<Seed>& seeds) {
  Direction direction;
  for (const Seed& seed : seeds) {
    std::vector<double> c(shadow.value(seed.value).size(), 0.0);
    const std::size_t row_size = c.size() / static_cast<std::size_t>(program.rows(seed.value));
    for (std::size_t first = 0; first < c.size(); first += row_size)
      c[first + static_cast<std::size_t>(seed.element)] = seed.factor;
    direction.emplace_back(seed.value, std::move(c));
  }
  return direction;
}

std::vector<Certificate> sweep(const Program& program, const Shadow& shadow, std::span<const Deviation> deviations,
                               const Direction& c, const Setting& setting, std::vector<std::vector<double>>* adjoints) {
  std::vector<Certificate> certificates(deviations.size());
  for (std::vector<std::size_t>& alike : by_slopes(deviations)) {
    std::vector<const Deviation*> of_these;
    for (const std::size_t which : alike) of_these.push_back(&deviations[which]);
    Sweep sweep(program, shadow, of_these, c, setting, alike.front() == 0 ? adjoints : nullptr);
    for (std::size_t node = program.nodes().size(); node-- > 0;) sweep.pull_back(node);
    for (const ValueId input : program.flat().graph.inputs) sweep.charge_input(input);
    std::vector<Certificate> of_alike = std::move(sweep).result();
    for (std::size_t i = 0; i < alike.size(); ++i) certificates[alike[i]] = std::move(of_alike[i]);
  }
  return certificates;
}

}  // namespace driftbound::bounds
