#include "bounds/rows/node_step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "bounds/adjoint/composite_norms.hpp"
#include "bounds/adjoint/condition.hpp"
#include "bounds/adjoint/norms.hpp"
#include "bounds/chance/probabilistic.hpp"
#include "bounds/chance/statistical.hpp"
#include "bounds/nodes/body_rounding.hpp"
#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/forward.hpp"
#include "bounds/nodes/push.hpp"
#include "bounds/nodes/secants.hpp"
#include "bounds/nodes/transpose.hpp"
#include "bounds/rows/expanded_row.hpp"
#include "bounds/rows/run_state.hpp"
#include "bounds/rows/step.hpp"
#include "driftbound/model/op_groups.hpp"

namespace driftbound::bounds {
namespace {

using namespace steps;

/// Part `row` of a vector that has parts of `size` elements.
std::span<const double> row_part(const std::vector<double>& values, std::size_t row, std::size_t size) {
  return std::span(values).subspan(row * size, size);
}

void put_row(std::span<const double> part, std::size_t row, std::vector<double>& values) {
  std::copy(part.begin(), part.end(), values.begin() + static_cast<std::ptrdiff_t>(row * part.size()));
}

/// Whether the Jacobian of an op consists of values of its operands or of its result.
bool has_values_as_slopes(const Op& op) {
  return multiplies_matrices(op) || std::holds_alternative<op::Softmax>(op);
}

bool multiplies_elements(const Op& op) {
  return std::holds_alternative<op::Mul>(op) || std::holds_alternative<op::Div>(op);
}

/// One sample of a node's operands and result, in memory that is used for one sample after the other.
struct Sample {
  Sample(const SampleProgram& of, const Node& node)
      : operands(node.inputs.size()), result(of.program->shape(node.output)), view{&node, {}, &result} {
    for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const ValueId id = node.inputs[slot];
      if (of.program->varies(id)) operands[slot] = Tensor<double>(of.program->shape(id));
      view.inputs.push_back(of.program->varies(id) ? &operands[slot] : of.constants[id]);
    }
  }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  std::vector<Tensor<double>> operands;  ///< empty for constants
  Tensor<double> result;
  NodeView view;
};

/// One sample of the values before a node that theorems of several nodes read (T-67, T-125).
struct ValuesBefore {
  explicit ValuesBefore(const SampleProgram& of) : run(deviation_of(*of.program)) {
    shadow.values.resize(of.program->size());
    shadow.error.resize(of.program->size());
    shadow.kept_elsewhere = of.constants;
  }

  Shadow shadow;
  Deviation run;

private:
  static Deviation deviation_of(const Program& program) {
    Deviation deviation;
    deviation.radii.resize(program.size());
    deviation.added.resize(program.size());
    deviation.remainder.resize(program.size());
    deviation.slopes.resize(program.nodes().size());
    return deviation;
  }
};

class NodeStep : public Step {
public:
  NodeStep(const SampleProgram& sample, std::size_t node, const Setting& setting, OperandCache& operands,
           std::set<std::string>& conditions)
      : Step(setting, 2),
        sample_(sample),
        program_(*sample.program),
        node_(program_.fused().nodes[node]),
        setting_(setting),
        operands_(operands) {
    setting_.threads = 1;
    setting_.operands = nullptr;  // no operand is the same for every sample
    if (sample_.bounds_jointly(node)) joint_node_ = *sample_.flat_node[node_.output];
    Sample any(sample_, node_);
    find_values_before(any.view);
    for (Tensor<double>& operand : any.operands) std::fill(operand.values.begin(), operand.values.end(), 0.5);
    std::fill(any.result.values.begin(), any.result.values.end(), 0.5);
    const std::vector<Radii> exact(node_.inputs.size());
    body_rounding({any.view, exact, {}, true}, setting_, conditions);
    is_sum_ = is_plain_sum(any.view);
  }

  void forward(std::span<const RunRows* const> operands, const RunRequest& request, RunRows& y, RunErrors& errors,
               std::vector<char>& undecided, RunScratch& scratch) const override {
    prepare(operands, request, y, errors);
    Sample sample(sample_, node_);
    ValuesBefore before(sample_);
    for (std::size_t row = 0; row < y.rows(); ++row) {
      read(operands, row, sample);
      Centre centre = centre_of_node({&node_, sample.view.inputs, nullptr}, sample.result.shape, setting_);
      std::swap(sample.result, centre.value);
      put_row(sample.result.values, row, y.centre);
      const ExpandedRow any_order = expand(sample, centre.error, operands, row, true, scratch.state, before);
      keep_slopes(any_order.linear, row, y.rows(), errors);
      if (!errors.factors.empty()) put_row(sample.result.values, row, errors.factors.back());
      any_order.write_errors(row * y.size(), errors.added, errors.remainder);
      any_order.write_moved(row * y.size(), y.radius);
      finish(y, row,
             norm_of_moved(sample, operands, row, any_order, false, scratch.state, before) +
                 norm_of(errors.added, row, y.size()));
      y.exact[row] = request.knows_network() ? HUGE_VAL : exact_norm(sample, centre.error, operands, row).value();
      if (!std::isfinite(y.norm[row])) undecided[row] = 1;
      if (request.of_terms()) add_chance(sample, centre.error, operands, row, any_order, request, errors);
      if (!request.in_order) continue;
      const ExpandedRow in_order = expand(sample, centre.error, operands, row, false, scratch.state, before);
      in_order.write_errors(row * y.size(), errors.added_in_order, errors.remainder_in_order);
      in_order.write_moved(row * y.size(), y.in_order.radius);
      finish_in_order(y, row,
                      norm_of_moved(sample, operands, row, in_order, true, scratch.state, before) +
                          norm_of(errors.added_in_order, row, y.size()));
    }
  }

  bool has_remainder_of_radii() const override { return true; }

  void evaluate(std::span<const double* const> operands, std::size_t rows, std::vector<double>& result) const override {
    Sample sample(sample_, node_);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t slot = 0; slot < operands.size(); ++slot)
        if (operands[slot] != nullptr) {
          std::vector<double>& values = sample.operands[slot].values;
          std::copy_n(operands[slot] + row * values.size(), values.size(), values.begin());
        }
      put_row(centre_of_node({&node_, sample.view.inputs, nullptr}, sample.result.shape, setting_).value.values, row,
              result);
    }
  }

  void pull_back(std::size_t slot, const RunErrors& errors, std::span<const std::size_t> rows, const RunAdjoint& y,
                 RunAdjoint& share) const override {
    const std::size_t n = y.d.size() / rows.size();
    Sample sample(sample_, node_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Transposed of_row = pulled_back(slot, errors, rows[i], row_part(y.d, i, n), sample);
      put_row(of_row.values, i, share.d);
      share.defect[i] = largest_defect(of_row);
    }
  }

  void pull_back(std::size_t slot, const RunErrors& errors, std::span<const float>, std::span<const std::size_t> rows,
                 const SingleAdjoint& y, SingleAdjoint& share) const override {
    const std::size_t n = y.d.size() / rows.size();
    Sample sample(sample_, node_);
    std::vector<double> d(n);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(y.d.data() + i * n, n, d.data());
      const Transposed of_row = pulled_back(slot, errors, rows[i], d, sample);
      float* const values = share.d.data() + i * of_row.values.size();
      double largest = 0.0;
      for (std::size_t k = 0; k < of_row.values.size(); ++k) {
        values[k] = static_cast<float>(of_row.values[k]);
        largest = std::max(largest, std::abs(of_row.values[k]));
      }
      const bool fits = largest <= static_cast<double>(std::numeric_limits<float>::max());
      const Magnitude rounding(theorems::single_rounding(largest));
      share.defect[i] = fits ? (Magnitude(largest_defect(of_row)) + rounding).value() : HUGE_VAL;
    }
  }

  void push(std::span<const float* const> operands, const RunErrors& errors, std::span<const std::size_t> rows,
            std::size_t copies, std::vector<float>& result) const override {
    Sample sample(sample_, node_);
    const std::size_t n = sample.result.size();
    std::vector<std::vector<double>> moved(operands.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      put_slopes(errors, rows[i], sample);
      for (std::size_t slot = 0; slot < operands.size(); ++slot) {
        if (operands[slot] == nullptr) continue;
        const std::size_t size = copies * sample.operands[slot].size();
        moved[slot].assign(operands[slot] + i * size, operands[slot] + (i + 1) * size);
      }
      const std::vector<std::span<const double>> directions(moved.begin(), moved.end());
      const std::vector<double> of_row =
          pushed(sample.view, slopes_of(errors, rows[i], n), directions, copies, Jacobian::as_stored, setting_).values;
      for (std::size_t k = 0; k < copies * n; ++k) result[i * copies * n + k] = static_cast<float>(of_row[k]);
    }
  }

  std::vector<std::vector<double>> slopes_of(const RunErrors& errors, std::size_t row, std::size_t) const override {
    std::vector<std::vector<double>> slopes(node_.inputs.size());
    for (std::size_t slot = 0; slot < errors.operand_slopes.size(); ++slot) {
      const std::size_t size = errors.slope_sizes[slot];
      if (size == 0) continue;
      const std::span<const double> of_row = row_part(errors.operand_slopes[slot], row, size);
      slopes[slot].assign(of_row.begin(), of_row.end());
    }
    return slopes;
  }

  void add_secants(std::span<const RunRows* const> centres, std::span<const RecordedRows* const> run, const RunRows& y,
                   RunErrors& errors) const override {
    const std::size_t rows = y.rows();
    for (std::size_t slot = 0; slot < errors.operand_slopes.size(); ++slot)
      errors.operand_slopes[slot].resize(2 * rows * errors.slope_sizes[slot]);
    for (std::size_t slot = 0; slot + 1 < errors.factors.size(); ++slot)
      errors.factors[slot].resize(2 * errors.factors[slot].size());
    Sample sample(sample_, node_);
    for (std::size_t row = 0; row < rows; ++row) {
      read(centres, row, sample);
      put_row(row_part(y.centre, row, y.size()), 0, sample.result.values);
      std::vector<ExtendedValue> values(node_.inputs.size());
      ExtendedView view{&node_, {}};
      for (std::size_t slot = 0; slot < values.size(); ++slot) {
        view.inputs.push_back(centres[slot] == nullptr ? nullptr : &values[slot]);
        if (centres[slot] == nullptr) continue;
        const std::size_t size = sample.operands[slot].size();
        Tensor<double> recorded(sample.operands[slot].shape);
        put_row(row_part(run[slot]->values, row, size), 0, recorded.values);
        values[slot].run = widened(recorded);
        for (std::size_t i = 0; i < size; ++i)
          values[slot].step.push_back(values[slot].run.values[i] - Extended(sample.operands[slot].values[i]));
        keep_factors(slot, rows + row, recorded, sample.operands[slot], errors);
      }
      const ExtendedImage of_run = approx_image(view, sample.view, sample.result.shape);
      const std::vector<std::vector<double>> secants = approx_secants(view, of_run, sample.view, setting_);
      for (std::size_t slot = 0; slot < secants.size(); ++slot)
        if (errors.slope_sizes[slot] != 0) put_row(secants[slot], rows + row, errors.operand_slopes[slot]);
    }
  }

private:
  bool varies(std::size_t slot) const { return program_.varies(node_.inputs[slot]); }

  void prepare(std::span<const RunRows* const> operands, const RunRequest& request, const RunRows& y,
               RunErrors& errors) const {
    const std::size_t all = y.centre.size();
    allocate_added(errors, all, request);
    allocate_remainder(errors, all, request);
    errors.rounds_once = rounds_once(node_.op);
    errors.patterns.clear();
    if (request.of_terms() && (is_sum_ || errors.rounds_once)) errors.residuals.resize(all);
    if (request.of_terms() && is_sum_)
      for (std::vector<double>* values : {&errors.amplitudes, &errors.estimates, &errors.sizes}) values->resize(all);
    if (request.chance.random_order > 0.0) errors.unattributed.resize(all);
    errors.operand_slopes.assign(node_.inputs.size(), {});
    errors.slope_sizes.assign(node_.inputs.size(), 0);
    errors.factors.clear();
    if (!has_values_as_slopes(node_.op)) return;
    for (const RunRows* operand : operands)
      errors.factors.push_back(operand == nullptr ? std::vector<double>() : operand->centre);
    errors.factors.emplace_back(all);
  }

  void read(std::span<const RunRows* const> operands, std::size_t row, Sample& sample) const {
    for (std::size_t slot = 0; slot < operands.size(); ++slot)
      if (operands[slot] != nullptr)
        put_row(row_part(operands[slot]->centre, row, operands[slot]->size()), 0, sample.operands[slot].values);
  }

  static std::vector<Radii> radii_of(std::span<const RunRows* const> operands, std::size_t row, bool in_order) {
    std::vector<Radii> radii;
    for (const RunRows* operand : operands)
      radii.push_back(operand == nullptr
                          ? Radii()
                          : row_part(in_order ? operand->in_order.radius : operand->radius, row, operand->size()));
    return radii;
  }

  /// Finds the values that T-67 and T-125 read; they are not used where one of these has no rows of its own.
  void find_values_before(const NodeView& view) {
    ValuesBefore none(sample_);
    NormRequest request{program_, view, {}, Magnitude::infinite()};
    request.shadow = &none.shadow, request.known = &none.run;
    std::vector<ValueId> values = values_of_composite(request);
    std::erase_if(values, [&](ValueId id) { return sample_.constants[id] != nullptr; });
    if (!std::all_of(values.begin(), values.end(), [&](ValueId id) { return has_rows(id); })) values.clear();
    is_composite_ = !values.empty();
    values_before_.insert(values.begin(), values.end());
    if (!joint_node_) return;
    values_before_.insert(sample_.joint.value_before(*joint_node_));
    for (const std::size_t way : sample_.joint.ways_to_meet(*joint_node_))
      if (way != *joint_node_) values_before_.insert(program_.nodes()[way].output);
  }

  bool has_rows(ValueId id) const { return sample_.fused_node[id] || sample_.is_input(id); }

  void read_values_before(std::size_t row, bool any_order, const RunState& state, ValuesBefore& before) const {
    for (const ValueId id : values_before_) {
      const std::size_t size = program_.row_size(id);
      const auto of_row = [&](const std::vector<double>& values) {
        const std::span<const double> found = values.empty() ? std::span<const double>() : row_part(values, row, size);
        return std::vector<double>(found.begin(), found.end());
      };
      const RunRows& rows = state.rows[id];
      before.shadow.values[id] = Tensor<double>(program_.shape(id), of_row(rows.centre));
      before.run.radii[id] = {of_row(any_order ? rows.radius : rows.in_order.radius),
                              {(any_order ? rows.norm : rows.in_order.norm)[row]}};
      if (!sample_.fused_node[id]) continue;  // an input
      const std::size_t node = *sample_.fused_node[id];
      const RunErrors& errors = state.errors[node];
      before.run.added[id] = of_row(any_order ? errors.added : errors.added_in_order);
      before.run.remainder[id] = of_row(any_order ? errors.remainder : errors.remainder_in_order);
      before.run.slopes[*sample_.flat_node[id]] = state.steps[node]->slopes_of(errors, row, size);
      before.shadow.error[id] = of_row(errors.added);  // of which the shadow's own error is a part
    }
  }

  ExpandedRow expand(const Sample& sample, const std::vector<double>& own, std::span<const RunRows* const> operands,
                     std::size_t row, bool any_order, const RunState* state, ValuesBefore& before) const {
    if (state != nullptr) read_values_before(row, any_order, *state, before);
    before.shadow.error[node_.output] = own;
    const auto joint = [&](const Linearised& linear) -> std::optional<JointMove> {
      if (!joint_node_ || state == nullptr) return std::nullopt;
      before.run.slopes[*joint_node_] = linear.slopes;
      before.run.remainder[node_.output] = linear.remainder;
      return sample_.joint.moved(*joint_node_, before.run);
    };
    return expanded_row(sample.view, radii_of(operands, row, !any_order), own, any_order, setting_, joint);
  }

  void keep_slopes(const Linearised& linear, std::size_t row, std::size_t rows, RunErrors& errors) const {
    for (std::size_t slot = 0; slot < linear.slopes.size(); ++slot) {
      if (!varies(slot) || linear.slopes[slot].empty()) continue;
      errors.slope_sizes[slot] = linear.slopes[slot].size();
      errors.operand_slopes[slot].resize(rows * linear.slopes[slot].size());
      put_row(linear.slopes[slot], row, errors.operand_slopes[slot]);
    }
  }

  /// The values between those of the run and of the centre, of which the secant of a product consists; of a softmax,
  /// those of the run.
  void keep_factors(std::size_t slot, std::size_t row, const Tensor<double>& run, const Tensor<double>& centre,
                    RunErrors& errors) const {
    if (errors.factors.empty()) return;
    const bool is_product = multiplies_matrices(node_.op);
    for (std::size_t i = 0; i < run.size(); ++i)
      errors.factors[slot][row * run.size() + i] =
          is_product ? run.values[i] - 0.5 * (run.values[i] - centre.values[i]) : run.values[i];
  }

  /// Bound of the 2-norm by which the exact function moves, for radii and norms by operand; infinite if no theorem says
  /// more than the radii of the elements.
  Magnitude moved_norm(const Sample& sample, const std::vector<ValueRadii>& radii, const ValuesBefore* before) const {
    NormRequest request{program_, sample.view, {}, Magnitude::infinite()};
    if (before != nullptr) request.shadow = &before->shadow, request.known = &before->run;
    for (const ValueRadii& of_operand : radii) request.operands.push_back(&of_operand);
    const auto norms = moved_norms(request, setting_, operands_);
    return norms ? Magnitude(norms->front()) : Magnitude::infinite();
  }

  Magnitude norm_of_moved(const Sample& sample, std::span<const RunRows* const> operands, std::size_t row,
                          const ExpandedRow& expanded, bool in_order, const RunState* state,
                          const ValuesBefore& before) const {
    std::vector<ValueRadii> radii(operands.size());
    const std::vector<Radii> elements = radii_of(operands, row, in_order);
    for (std::size_t slot = 0; slot < radii.size(); ++slot)
      if (operands[slot] != nullptr)
        radii[slot] = {std::vector<double>(elements[slot].begin(), elements[slot].end()),
                       {(in_order ? operands[slot]->in_order.norm : operands[slot]->norm)[row]}};
    return std::min(moved_norm(sample, radii, is_composite_ && state != nullptr ? &before : nullptr),
                    expanded.joint_norm);
  }

  /// The same for the exact network, no element of whose operands is farther than their 2-norm.
  Magnitude exact_norm(const Sample& sample, const std::vector<double>& own, std::span<const RunRows* const> operands,
                       std::size_t row) const {
    std::vector<ValueRadii> radii(operands.size());
    for (std::size_t slot = 0; slot < radii.size(); ++slot)
      if (operands[slot] != nullptr)
        radii[slot] = {std::vector<double>(operands[slot]->size(), operands[slot]->exact[row]),
                       {operands[slot]->exact[row]}};
    const Magnitude by_norms = moved_norm(sample, radii, nullptr);
    const Magnitude of_centre = theorems::norm_of_vector(own);
    if (by_norms.is_finite()) return by_norms + of_centre;
    std::vector<Radii> elements;
    for (const ValueRadii& of_operand : radii) elements.emplace_back(of_operand.element);
    return theorems::norm_of_vector(propagate(sample.view, elements, own, setting_)) + of_centre;
  }

  /// T-74, T-75 and T-79 for one sample, as chance_bounds() and approx_condition() do.
  void add_chance(const Sample& sample, const std::vector<double>& own, std::span<const RunRows* const> operands,
                  std::size_t row, const ExpandedRow& expanded, const RunRequest& request, RunErrors& errors) const {
    RoundingNode rounding{sample.view, radii_of(operands, row, false), expanded.moved, expanded.added, own};
    if (request.chance.random_order > 0.0)
      note_unattributed(sample, rounding.operand_radii, row, expanded.linear, errors);
    if (errors.rounds_once) put_row(own, row, errors.residuals);
    if (!is_sum_) return;
    put_row(approx_magnitudes(sample.view, setting_), row, errors.sizes);
    rounding.sums = sums_of(rounding, setting_);
    const NodeChance in_worst_order = martingale_roundings(rounding, setting_);
    put_row(in_worst_order.amplitudes, row, errors.amplitudes);
    put_row(in_worst_order.rest, row, errors.residuals);
    put_row(estimate_roundings(rounding, setting_).amplitudes, row, errors.estimates);
    const std::vector<TermPattern> patterns = patterns_of(rounding, nullptr);
    if (patterns.empty()) return;
    errors.patterns.resize(errors.added.size(), TermPattern::none);
    std::copy(patterns.begin(), patterns.end(),
              errors.patterns.begin() + static_cast<std::ptrdiff_t>(row * patterns.size()));
  }

  /// T-75: the remainders of elements where they exceed |J| E.
  void note_unattributed(const Sample& sample, const std::vector<Radii>& radii, std::size_t row,
                         const Linearised& linear, RunErrors& errors) const {
    const std::size_t n = sample.result.size();
    std::vector<double> seen;
    if (!linear.remainder.empty())
      seen = pushed(sample.view, linear.slopes, radii, 1, Jacobian::magnitudes, setting_).values;
    for (std::size_t i = 0; i < n; ++i)
      errors.unattributed[row * n + i] = seen.empty() || linear.remainder[i] <= seen[i] ? 0.0 : linear.remainder[i];
  }

  /// Sets the values that the Jacobian consists of, if it does.
  void put_slopes(const RunErrors& errors, std::size_t row, Sample& sample) const {
    for (std::size_t slot = 0; slot + 1 < errors.factors.size(); ++slot)
      if (varies(slot))
        put_row(row_part(errors.factors[slot], row, sample.operands[slot].size()), 0, sample.operands[slot].values);
    const std::size_t n = sample.result.size();
    if (!errors.factors.empty() && row < errors.added.size() / n)
      put_row(row_part(errors.factors.back(), row, n), 0, sample.result.values);
  }

  Transposed pulled_back(std::size_t slot, const RunErrors& errors, std::size_t row, std::span<const double> d,
                         Sample& sample) const {
    const std::size_t rows = errors.added.size() / sample.result.size();
    put_slopes(errors, row, sample);
    if (row >= rows && std::holds_alternative<op::Softmax>(node_.op)) return by_secant(errors, row - rows, d, sample);
    std::vector<bool> wanted(node_.inputs.size(), false);
    wanted[slot] = true;
    return std::move(transposed(sample.view, slopes_of(errors, row, sample.result.size()), d, wanted, setting_)[slot]);
  }

  /// The share of a softmax in an attribution; the sample has the operand in the run.
  Transposed by_secant(const RunErrors& errors, std::size_t row, std::span<const double> d, Sample& sample) const {
    ExtendedValue operand{widened(sample.operands[0]), {}};
    const std::span<const double> centre = row_part(errors.factors[0], row, sample.operands[0].size());
    for (std::size_t i = 0; i < centre.size(); ++i) operand.step.push_back(operand.run.values[i] - Extended(centre[i]));
    put_row(row_part(errors.factors.back(), row, sample.result.size()), 0, sample.result.values);
    return {approx_softmax_secant(operand, sample.view, std::vector<double>(d.begin(), d.end())), {}};
  }

  static double largest_defect(const Transposed& share) {
    return share.defect.empty() ? 0.0 : *std::max_element(share.defect.begin(), share.defect.end());
  }

  const SampleProgram& sample_;
  const Program& program_;
  const Node& node_;
  Setting setting_;
  OperandCache& operands_;
  bool is_sum_ = false;                    ///< whether its errors are those of sums (T-74)
  bool is_composite_ = false;              ///< whether T-67 bounds it together with nodes before it
  std::set<ValueId> values_before_;        ///< that T-67 and T-125 read
  std::optional<std::size_t> joint_node_;  ///< its index in Program::nodes(), if T-125 bounds it
};

}  // namespace

SampleProgram::SampleProgram(std::shared_ptr<const Program> of, const std::vector<const Tensor<double>*>& all)
    : program(std::move(of)), joint(*program), constants(all), fused_node(program->size()), flat_node(program->size()) {
  const std::vector<bool> are_matrices = constant_matrices(*program);
  for (ValueId id = 0; id < program->size(); ++id)
    if (all[id] != nullptr && !are_matrices[id]) constants[id] = &own_.emplace_back(*all[id]);
  for (std::size_t node = 0; node < program->fused().nodes.size(); ++node)
    fused_node[program->fused().nodes[node].output] = node;
  for (std::size_t node = 0; node < program->nodes().size(); ++node) flat_node[program->nodes()[node].output] = node;
}

bool SampleProgram::bounds_jointly(std::size_t node) const {
  const std::vector<std::size_t>& ways = joint.ways_to_meet(*flat_node[program->fused().nodes[node].output]);
  return !ways.empty() && std::all_of(ways.begin(), ways.end(), [&](std::size_t way) {
    return fused_node[program->nodes()[way].output].has_value();
  });
}

std::unique_ptr<const RunStep> node_step(const SampleProgram& sample, std::size_t node, const Setting& setting,
                                         OperandCache& operands, std::set<std::string>& conditions) {
  const Node& of = sample.program->fused().nodes[node];
  const bool needs_to_be = multiplies_elements(of.op) && sample.joint.meet_in(*sample.flat_node[of.output]);
  if (needs_to_be && !sample.bounds_jointly(node)) return nullptr;
  return std::make_unique<NodeStep>(sample, node, setting, operands, conditions);
}

}  // namespace driftbound::bounds
