#include "region/cell_network.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "bounds/matrices/spectral_norm.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/trace.hpp"
#include "implicit/float_network.hpp"
#include "implicit/packer.hpp"
#include "region/cell_functions.hpp"

namespace driftbound::region {

using implicit::AlignedDoubles;

namespace {

const CellKernels& kernels() {
  return simd::fastest<cells_builds>();
}

bool is_float(double x) {
  return static_cast<double>(static_cast<float>(x)) == x;
}

void append(std::string& text, const char* name, std::initializer_list<std::span<const double>> numbers) {
  text += name;
  for (const std::span<const double> part : numbers) {
    text += " " + std::to_string(part.size()) + ":";
    text.append(reinterpret_cast<const char*>(part.data()), part.size_bytes());
  }
}

/// An operand's symbols that came up after it are 0.
void prepare(const CellWork::Place& place, std::size_t slot, std::size_t features, CellBlock& block) {
  const std::size_t known = block.symbols_of[place.owners[slot]];
  if (known < block.shape.used) kernels().clear(block.shape, block.values(place.reads[slot]), known, features);
}

/// Gives the adjoint that is in block.adjoint to an operand.
void hand_on(CellBlock& block, std::size_t feature, bool is_alone, std::size_t features) {
  double* const g = block.row(block.g, feature);
  if (is_alone) {
    std::copy_n(block.adjoint.data(), features * cell_lanes, g);
  } else {
    kernels().accumulate(block.shape, block.adjoint.data(), block.values(feature), g, block.totals(), features);
  }
}

/// What the step adds by itself to the errors.
void add_sources(const CellWork::Place& place, CellBlock& block) {
  kernels().added(block.shape, block.row(block.g, place.writes), block.sources(place.writes), block.totals(),
                  place.features);
}

class Dense final : public CellWork {
public:
  Dense(std::size_t inputs, std::size_t outputs)
      : inputs_(inputs),
        outputs_(outputs),
        weights_(inputs * outputs),
        sizes_(inputs * outputs),
        transposed_(inputs * outputs),
        bias_(outputs, 0.0) {}

  void set_weight(std::size_t k, std::size_t j, double value) {
    weights_[j * inputs_ + k] = value;
    sizes_[j * inputs_ + k] = std::fabs(value);
    transposed_[k * outputs_ + j] = value;
  }
  void set_bias(std::size_t j, double value) { bias_[j] = value; }

  void forward(const Place& place, CellBlock& block) const override {
    const CellValues x = block.values(place.reads[0]), y = block.values(place.writes);
    prepare(place, 0, inputs_, block);
    const std::size_t affine = block.shape.affine() * cell_lanes, radii = block.shape.radii * cell_lanes;
    const std::size_t kept = (1 + block.shape.dimension + block.shape.used) * cell_lanes;
    kernels().product(weights_.data(), x.affine, y.affine, outputs_, inputs_, kept, affine);
    kernels().product(sizes_.data(), x.radii, y.radii, outputs_, inputs_, radii, radii);
    const bool has_rounding = block.shape.has_rounding;
    if (has_rounding) {
      kernels().squares(block.shape, x, block.squares.data(), block.signed_squares.data(), block.count.data(), inputs_);
      const auto weigh = [&](const std::vector<double>& weights, const AlignedDoubles& from, AlignedDoubles& to) {
        kernels().product(weights.data(), from.data(), to.data(), outputs_, inputs_, cell_lanes, cell_lanes);
      };
      weigh(squares_, block.squares, block.weighed_squares);
      weigh(signed_squares_, block.signed_squares, block.weighed_signed_squares);
    }
    const double* const norm = block.row(block.norms, place.owners[0]);
    const CellKernels::Terms terms{block.weighed_squares.data(), block.weighed_signed_squares.data(),
                                   block.count.data(), norm};
    kernels().dense(block.shape, {bias_.data(), norms_.data(), inputs_}, terms, y, block.sources(place.writes),
                    block.row(block.defect, place.writes), outputs_);
    if (!has_rounding) return;
    const CellKernels::NormSource operand{norm, nullptr, norm_};
    kernels().norm(block.shape, &operand, 1, y, block.row(block.lost, place.writes),
                   block.row(block.norms, place.writes), outputs_);
  }
  void describe(std::string& text) const override { append(text, "dense", {weights_, bias_}); }
  /// Once all weights are there.
  void complete() {
    const auto rows = static_cast<std::int64_t>(outputs_), columns = static_cast<std::int64_t>(inputs_);
    const bounds::MatrixView transposed{weights_.data(), columns, rows, 1, columns};
    norms_ = bounds::column_norms(transposed);
    norm_ = bounds::spectral_norm(transposed, 1).value();
    squares_.resize(weights_.size());
    std::transform(weights_.begin(), weights_.end(), squares_.begin(), [](double w) { return w * w; });
    signed_squares_.resize(weights_.size());
    std::transform(weights_.begin(), weights_.end(), signed_squares_.begin(),
                   [](double w) { return w * std::fabs(w); });
  }
  void backward(const Place& place, CellBlock& block) const override {
    add_sources(place, block);
    const double* const g = block.row(block.g, place.writes);
    if (block.shape.has_gradient)
      kernels().turned(block.shape, g, block.row(block.defect, place.writes), block.totals(), outputs_);
    kernels().product(transposed_.data(), g, block.adjoint.data(), inputs_, outputs_, cell_lanes, cell_lanes);
    hand_on(block, place.reads[0], place.is_alone[0], inputs_);
  }

private:
  std::size_t inputs_, outputs_;
  std::vector<double> weights_, sizes_, squares_, signed_squares_, transposed_, bias_, norms_;
  double norm_ = 0.0;
};

/// Steps of single elements.
class ByElements : public CellWork {
public:
  void forward(const Place& place, CellBlock& block) const final {
    CellKernels::Operand operands[2];
    CellKernels::NormSource norms[2];
    for (std::size_t slot = 0; slot < place.reads.size(); ++slot) {
      prepare(place, slot, place.features, block);
      operands[slot] = {block.values(place.reads[slot]), block.slopes(place.slopes + slot * place.features)};
      norms[slot] = {block.row(block.norms, place.owners[slot]), &operands[slot].slopes, 0.0};
    }
    run(place, block);
    kernels().complete(block.shape, operands, place.reads.size(), block.values(place.writes),
                       block.sources(place.writes), place.features);
    if (!block.shape.has_rounding) return;
    kernels().norm(block.shape, norms, place.reads.size(), block.values(place.writes),
                   block.row(block.lost, place.writes), block.row(block.norms, place.writes), place.features);
  }
  void backward(const Place& place, CellBlock& block) const override {
    add_sources(place, block);
    for (std::size_t slot = 0; slot < place.reads.size(); ++slot) {
      kernels().slope_back(block.shape, block.row(block.g, place.writes), block.values(place.reads[slot]),
                           block.slopes(place.slopes + slot * place.features), block.adjoint.data(), block.totals(),
                           place.features);
      hand_on(block, place.reads[slot], place.is_alone[slot], place.features);
    }
  }

protected:
  virtual void run(const Place& place, CellBlock& block) const = 0;
};

class Piecewise final : public ByElements {
public:
  Piecewise(double left, double right, std::vector<double> kinks = {})
      : left_(left), right_(right), kinks_(std::move(kinks)) {}
  void run(const Place& place, CellBlock& block) const override {
    kernels().piecewise(block.shape, block.values(place.reads[0]), kinks_.empty() ? nullptr : kinks_.data(), left_,
                        right_, block.values(place.writes), block.slopes(place.slopes), block.sources(place.writes),
                        place.features);
  }

  void describe(std::string& text) const override { append(text, "piecewise", {std::vector{left_, right_}, kinks_}); }

private:
  double left_, right_;
  std::vector<double> kinks_;
};

class Scale final : public ByElements {
public:
  /// No factors: 1; no shifts: 0.
  Scale(std::vector<double> factors, std::vector<double> shifts, double error, bool rounds)
      : factors_(std::move(factors)), shifts_(std::move(shifts)), error_(error), rounds_(rounds) {}
  void run(const Place& place, CellBlock& block) const override {
    kernels().scale(block.shape, block.values(place.reads[0]), factors_.empty() ? nullptr : factors_.data(),
                    shifts_.empty() ? nullptr : shifts_.data(), error_, rounds_, block.values(place.writes),
                    block.slopes(place.slopes), block.sources(place.writes), place.features);
  }

  void describe(std::string& text) const override { append(text, "scale", {factors_, shifts_, std::vector{error_}}); }

private:
  std::vector<double> factors_, shifts_;
  double error_;
  bool rounds_;
};

class OfPair final : public ByElements {
public:
  OfPair(const char* name, CellKernels::Pair loop, double sign) : name_(name), loop_(loop), sign_(sign) {}
  void run(const Place& place, CellBlock& block) const override {
    loop_(block.shape, block.values(place.reads[0]), block.values(place.reads[1]), sign_, block.values(place.writes),
          block.slopes(place.slopes), block.slopes(place.slopes + place.features), block.sources(place.writes),
          place.features);
  }

  void describe(std::string& text) const override { append(text, name_, {std::vector{sign_}}); }
  bool is_linear_in_pieces() const override { return loop_ != kernels().product_of_values; }

private:
  const char* name_;
  CellKernels::Pair loop_;
  double sign_;
};

/// The larger one of two values, or the smaller one. What its slopes may be off by counts once, for the difference.
class Extremum final : public CellWork {
public:
  explicit Extremum(double sign) : sign_(sign) {}

  void forward(const Place& place, CellBlock& block) const override {
    for (std::size_t slot = 0; slot < 2; ++slot) prepare(place, slot, place.features, block);
    const CellValues a = block.values(place.reads[0]), b = block.values(place.reads[1]), y = block.values(place.writes),
                     difference = block.values(place.writes + place.features);
    const CellSources sources = block.sources(place.writes);
    const CellKernels::ExtremumSlopes slopes{slopes_of(place, 0, block), slopes_of(place, 1, block),
                                             slopes_of(place, 2, block)};
    kernels().extremum(block.shape, a, b, sign_, y, difference, slopes, sources, place.features);
    const CellKernels::Operand operands[3] = {{a, slopes.a}, {b, slopes.b}, {difference, slopes.difference}};
    kernels().complete(block.shape, operands, 3, y, sources, place.features);
    if (!block.shape.has_rounding) return;
    const CellKernels::NormSource norms[2] = {{block.row(block.norms, place.owners[0]), nullptr, 1.0},
                                              {block.row(block.norms, place.owners[1]), nullptr, 1.0}};
    kernels().norm(block.shape, norms, 2, y, sources.lost, block.row(block.norms, place.writes), place.features);
  }
  void backward(const Place& place, CellBlock& block) const override {
    add_sources(place, block);
    const auto slope_back = [&](std::size_t feature, std::size_t slot) {
      kernels().slope_back(block.shape, block.row(block.g, place.writes), block.values(feature),
                           slopes_of(place, slot, block), block.adjoint.data(), block.totals(), place.features);
    };
    slope_back(place.writes + place.features, 2);
    for (std::size_t slot = 0; slot < 2; ++slot) {
      slope_back(place.reads[slot], slot);
      hand_on(block, place.reads[slot], place.is_alone[slot], place.features);
    }
  }
  void describe(std::string& text) const override { append(text, "extremum", {std::vector{sign_}}); }
  std::size_t spare_features() const override { return 1; }
  std::size_t slots(const Place&) const override { return 3; }

private:
  static CellSlopes slopes_of(const Place& place, std::size_t slot, CellBlock& block) {
    return block.slopes(place.slopes + slot * place.features);
  }
  double sign_;
};

class Function final : public ByElements {
public:
  explicit Function(CellFunction function) : function_(std::move(function)) {}
  void run(const Place& place, CellBlock& block) const override {
    const BentSamples samples = block.bent_samples();
    const CellValues x = block.values(place.reads[0]);
    kernels().sample(block.shape, x, function_.bent, samples, place.features);
    bool is_known = true;
    for (std::size_t k = 0; k < 5; ++k)
      is_known = function_.evaluate(samples.at[k], samples.value[k], samples.slope[k], place.features * cell_lanes) &&
                 is_known;
    if (!is_known) std::fill_n(block.poison.data(), cell_lanes, std::numeric_limits<double>::quiet_NaN());
    kernels().function(block.shape, x, function_.bent, samples, block.values(place.writes), block.slopes(place.slopes),
                       block.sources(place.writes), place.features);
  }

  void describe(std::string& text) const override {
    append(text, function_.name, {std::vector{function_.bent.left_slope}});
  }
  bool is_linear_in_pieces() const override { return false; }

private:
  CellFunction function_;
};

/// Features copied one by one.
class Move final : public CellWork {
public:
  void forward(const Place& place, CellBlock& block) const override {
    const std::size_t affine = block.shape.affine() * cell_lanes, radii = block.shape.radii * cell_lanes;
    const std::size_t steep = block.shape.dimension * cell_lanes;
    for (std::size_t i = 0; i < place.features; ++i) {
      prepare(place, i, 1, block);
      const CellValues x = block.values(place.reads[i]), y = block.values(place.writes + i);
      std::copy_n(x.affine, affine, y.affine);
      std::copy_n(x.radii, radii, y.radii);
      std::copy_n(x.steep, steep, y.steep);
      std::fill_n(block.row(block.lost, place.writes + i), cell_lanes, 0.0);
    }
    if (block.shape.has_rounding)
      kernels().norm(block.shape, nullptr, 0, block.values(place.writes), block.row(block.lost, place.writes),
                     block.row(block.norms, place.writes), place.features);
  }
  void backward(const Place& place, CellBlock& block) const override {
    for (std::size_t i = 0; i < place.features; ++i) {
      std::copy_n(block.row(block.g, place.writes + i), cell_lanes, block.adjoint.data());
      hand_on(block, place.reads[i], false, 1);
    }
  }
  void describe(std::string& text) const override { append(text, "move", {}); }
};

/// A step as the packer places it, with what it does.
class PlacedStep final : public implicit::PackedStep<double> {
public:
  PlacedStep(std::unique_ptr<const CellWork> work, std::size_t size) : work_(std::move(work)) { features = size; }
  bool run(double*, std::size_t, double*) const override { return false; }
  std::unique_ptr<const CellWork> take() const { return std::move(work_); }

private:
  mutable std::unique_ptr<const CellWork> work_;
};

class PlacedDense final : public implicit::DenseLayer<double> {
public:
  PlacedDense(std::size_t inputs, std::size_t outputs, bool& is_float32)
      : work_(std::make_unique<Dense>(inputs, outputs)), is_float32_(is_float32) {
    features = outputs;
  }
  void set_weight(std::size_t k, std::size_t j, double value) override {
    is_float32_ = is_float32_ && is_float(value);
    work_->set_weight(k, j, value);
  }
  void set_bias(std::size_t j, double value) override {
    is_float32_ = is_float32_ && is_float(value);
    work_->set_bias(j, value);
  }
  bool run(double*, std::size_t, double*) const override { return false; }
  std::unique_ptr<const CellWork> take() const {
    work_->complete();
    return std::move(work_);
  }
  bool is_rectified() const { return rectified_; }

private:
  mutable std::unique_ptr<Dense> work_;
  bool& is_float32_;
};

/// Constants are used as they are: what is computed of constants alone is refused, as it would be rounded.
class CellSteps final : public implicit::StepMaker<double> {
public:
  explicit CellSteps(bool& is_float32) : is_float32_(is_float32) {}

  bool rounds_constants() const override { return false; }
  std::unique_ptr<implicit::DenseLayer<double>> dense(std::size_t inputs, std::size_t outputs) const override {
    return std::make_unique<PlacedDense>(inputs, outputs, is_float32_);
  }
  std::unique_ptr<Step> function(implicit::PackedFunction f, std::size_t size) const override {
    return placed(std::make_unique<Function>(function_of(f)), size);
  }
  bool has_gelu() const override { return true; }
  std::unique_ptr<Step> gelu(bool tanh_form, std::size_t size) const override {
    return placed(std::make_unique<Function>(gelu_function(tanh_form)), size);
  }
  std::unique_ptr<Step> rectified(std::size_t size) const override {
    return placed(std::make_unique<Piecewise>(0.0, 1.0), size);
  }
  std::unique_ptr<Step> bent(bool exponential, double alpha, std::size_t size) const override {
    is_float32_ = is_float32_ && is_float(alpha);
    if (!exponential) return placed(std::make_unique<Piecewise>(alpha, 1.0), size);
    if (!(alpha > 0.0 && alpha <= 0x1p20)) return nullptr;  // convex on both sides of 0
    return placed(std::make_unique<Function>(elu_function(alpha)), size);
  }
  std::unique_ptr<Step> of_values(implicit::PackedOperation operation, std::size_t size) const override {
    using Operation = implicit::PackedOperation;
    switch (operation) {
      case Operation::add:
        return pair("sum", kernels().sum, 1.0, size);
      case Operation::subtract:
        return pair("sum", kernels().sum, -1.0, size);
      case Operation::multiply:
        return pair("product", kernels().product_of_values, 1.0, size);
      case Operation::maximum:
        return placed(std::make_unique<Extremum>(1.0), size);
      case Operation::minimum:
        return placed(std::make_unique<Extremum>(-1.0), size);
      default:
        return nullptr;
    }
  }
  std::unique_ptr<Step> with_constants(implicit::PackedOperation operation,
                                       const std::vector<double>& constants) const override {
    using Operation = implicit::PackedOperation;
    is_float32_ = is_float32_ && std::all_of(constants.begin(), constants.end(), is_float);
    const std::size_t size = constants.size();
    switch (operation) {
      case Operation::add:
        return placed(std::make_unique<Scale>(std::vector<double>(), constants, 0.0, true), size);
      case Operation::multiply: {
        const bool is_exact =
            std::all_of(constants.begin(), constants.end(), [](double x) { return std::fabs(x) == 1.0; });
        return placed(std::make_unique<Scale>(constants, std::vector<double>(), 0.0, !is_exact), size);
      }
      case Operation::divide:
        return quotient(constants);
      case Operation::maximum:
        return placed(std::make_unique<Piecewise>(0.0, 1.0, constants), size);
      case Operation::minimum:
        return placed(std::make_unique<Piecewise>(1.0, 0.0, constants), size);
      default:
        return nullptr;
    }
  }
  std::unique_ptr<Step> moved(std::size_t size) const override { return placed(std::make_unique<Move>(), size); }

private:
  static std::unique_ptr<Step> placed(std::unique_ptr<const CellWork> work, std::size_t size) {
    return std::make_unique<PlacedStep>(std::move(work), size);
  }
  static std::unique_ptr<Step> pair(const char* name, CellKernels::Pair loop, double sign, std::size_t size) {
    return placed(std::make_unique<OfPair>(name, loop, sign), size);
  }
  /// Null where a reciprocal is out of the range in which it is rounded as usual.
  static std::unique_ptr<Step> quotient(const std::vector<double>& divisors) {
    std::vector<double> factors;
    for (const double divisor : divisors) {
      if (!(std::fabs(divisor) > 0x1p-500 && std::fabs(divisor) < 0x1p500)) return nullptr;
      factors.push_back(1.0 / divisor);
    }
    return placed(std::make_unique<Scale>(std::move(factors), std::vector<double>(), 0x1p-52, true), divisors.size());
  }

  bool& is_float32_;
};

}  // namespace

CellNetwork::CellNetwork(const Graph& graph) {
  std::string refused;
  const auto packed = implicit::packed_steps<double>(graph, CellSteps(is_float32_), &refused);
  if (!packed && refused.empty())
    throw Unsupported("regions: the network takes one sample at a time; export it with an open axis of samples");
  if (!packed) throw Unsupported("regions: there is no relaxation for node " + refused);

  dimension_ = packed->dimension;
  std::vector<std::size_t> first = {0}, readers;  // by buffer
  features_ = dimension_;
  const auto start_of = [&](std::size_t buffer) -> std::size_t& {
    if (first.size() <= buffer) first.resize(buffer + 1, 0);
    return first[buffer];
  };
  for (const auto& step : packed->steps) {
    for (const implicit::PackedPlace& read : step->reads) {
      if (readers.size() <= read.buffer) readers.resize(read.buffer + 1, 0);
      ++readers[read.buffer];
    }
  }
  if (readers.size() <= packed->result.buffer) readers.resize(packed->result.buffer + 1, 0);
  ++readers[packed->result.buffer];
  for (const auto& step : packed->steps) {
    CellWork::Place place;
    for (const implicit::PackedPlace& read : step->reads) {
      place.reads.push_back(start_of(read.buffer) + read.offset);
      place.owners.push_back(start_of(read.buffer));
      place.is_alone.push_back(readers[read.buffer] == 1 && read.offset == 0);
    }
    place.writes = features_;
    place.features = step->features;
    if (const auto* const dense = dynamic_cast<const PlacedDense*>(step.get())) {
      add(dense->take(), place);
      if (dense->is_rectified()) {
        CellWork::Place rectified{{place.writes}, {true}, {place.writes}, features_, place.features, 0};
        add(std::make_unique<Piecewise>(0.0, 1.0), rectified);
        place.writes = rectified.writes;
      }
    } else {
      add(dynamic_cast<const PlacedStep&>(*step).take(), place);
    }
    start_of(step->writes.buffer) = place.writes;
  }
  output_ = start_of(packed->result.buffer) + packed->result.offset;
  find_deep_bends();
}

CellNetwork::~CellNetwork() = default;

bool CellNetwork::is_linear_in_pieces() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.work->is_linear_in_pieces(); });
}

std::string CellNetwork::fingerprint() const {
  std::string text = "cells 1 " + std::to_string(dimension_) + " " + std::to_string(output_) + "\n";
  for (const Step& step : steps_) {
    step.work->describe(text);
    for (const std::size_t read : step.place.reads) text += " " + std::to_string(read);
    text += " > " + std::to_string(step.place.writes) + "+" + std::to_string(step.place.features) + "\n";
  }
  return sha256_of(std::as_bytes(std::span(text.data(), text.size())));
}

void CellNetwork::add(std::unique_ptr<const CellWork> work, CellWork::Place place) {
  place.slopes = slopes_;
  features_ += place.features * (1 + work->spare_features());
  slopes_ += work->slots(place) * place.features;
  widest_ = std::max(widest_, place.features);
  steps_.push_back({std::move(work), std::move(place)});
}

void CellNetwork::find_deep_bends() {
  std::vector<std::size_t> layers(features_, 0);  // dense ones before an element
  for (const Step& step : steps_) {
    const CellWork::Place& place = step.place;
    const bool is_dense = dynamic_cast<const Dense*>(step.work.get()) != nullptr;
    const bool may_bend = dynamic_cast<const ByElements*>(step.work.get()) != nullptr;
    std::size_t most = 0;
    for (std::size_t slot = 0; slot < place.reads.size(); ++slot) {
      const std::size_t before = layers[place.reads[slot]];
      most = std::max(most, before);
      if (may_bend && before >= 3)
        deep_bends_.push_back({place.reads[slot], place.writes, place.slopes + slot * place.features, place.features});
    }
    std::fill_n(layers.begin() + static_cast<std::ptrdiff_t>(place.writes), place.features, most + (is_dense ? 1 : 0));
  }
}

std::unique_ptr<CellBlock> CellNetwork::block(std::size_t symbols) const {
  auto block = std::make_unique<CellBlock>();
  const auto rows = [](std::size_t count) { return AlignedDoubles(count * cell_lanes); };
  block->shape.dimension = dimension_;
  block->widest = std::max(widest_, dimension_);
  block->shape.symbols = symbols;
  block->affine = rows(features_ * block->shape.affine());
  block->radii = rows(features_ * (residual_row + dimension_ + 1));
  block->steep = rows(features_ * dimension_);
  block->turns = rows(std::max(symbols, std::size_t{1}) * dimension_);
  block->symbols_of.resize(features_);
  for (AlignedDoubles* const all : {&block->added, &block->lost, &block->defect, &block->g, &block->norms})
    *all = rows(features_);
  for (AlignedDoubles* const all : {&block->slope, &block->spread}) *all = rows(std::max(slopes_, std::size_t{1}));
  block->half = rows(dimension_);
  block->poison = rows(1);
  block->samples = rows(15 * block->widest);
  for (AlignedDoubles* const all :
       {&block->squares, &block->signed_squares, &block->weighed_squares, &block->weighed_signed_squares})
    *all = rows(block->widest);
  block->count = rows(1);
  block->adjoint = rows(block->widest);
  block->sums = rows(2 + dimension_);
  block->shape.half = block->half.data();
  block->shape.poison = block->poison.data();
  block->shape.turns = block->turns.data();
  return block;
}

namespace {

/// Sums of up to 2^22 numbers, rounded at every step.
double summed(double computed) {
  return computed * (1.0 + 0x1p-29) + 0x1p-900;
}

/// The share of a cell's rounding errors from which on the part that a bend spreads is worth a sweep.
constexpr double least_effect = 0x1p-9;

}  // namespace

void CellNetwork::start(std::size_t dimension, CellQuestions questions, CellBlock& block) const {
  block.shape.dimension = dimension;
  block.shape.keep(questions.gradients, questions.rounding);
  block.shape.used = 0;
  std::fill_n(block.shape.next, cell_lanes, std::size_t{0});
  std::fill(block.symbols_of.begin(), block.symbols_of.end(), std::size_t{0});
  const CellValues x = block.values(0);
  std::fill_n(x.affine, dimension_ * block.shape.affine() * cell_lanes, 0.0);
  std::fill_n(x.radii, dimension_ * block.shape.radii * cell_lanes, 0.0);
}

void CellNetwork::follow(CellBlock& block) const {
  std::fill_n(block.poison.data(), cell_lanes, 0.0);
  std::fill_n(block.norms.data(), cell_lanes, 0.0);
  kernels().read(block.shape, block.values(0), dimension_);
  for (const Step& step : steps_) {
    step.work->forward(step.place, block);
    block.symbols_of[step.place.writes] = block.shape.used;
  }
  sweep_from_output(block);
}

void CellNetwork::sweep_from_output(CellBlock& block) const {
  Elements output;
  output.fill(output_);
  sweep(output, block);
}

void CellNetwork::sweep(const Elements& from, CellBlock& block) const {
  std::fill_n(block.sums.data(), (2 + dimension_) * cell_lanes, 0.0);
  std::fill_n(block.g.data(), features_ * cell_lanes, 0.0);
  const std::size_t last = *std::max_element(from.begin(), from.end());
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const std::size_t writes = step->place.writes;
    if (writes > last) continue;
    // Readers have written their parts of the adjoints by now.
    for (std::size_t i = 0; i < cell_lanes; ++i)
      if (from[i] >= writes && from[i] < writes + step->place.features) block.row(block.g, from[i])[i] += 1.0;
    step->work->backward(step->place, block);
  }
}

void CellNetwork::refine(std::size_t most, CellBlock& block) const {
  struct Candidate {
    double effect;
    std::size_t element;
  };
  std::vector<Candidate> of_cell[cell_lanes];
  for (const Bend& bend : deep_bends_) {
    for (std::size_t k = 0; k < bend.features; ++k) {
      const double *const g = block.row(block.g, bend.writes + k), *const spread =
                                                                       block.row(block.spread, bend.slopes + k);
      const double* const radius = rounding_of(bend.reads + k, block);
      for (std::size_t i = 0; i < cell_lanes; ++i) {
        const double effect = std::fabs(g[i]) * spread[i] * radius[i];
        if (effect > block.sums[cell_lanes + i] * least_effect) of_cell[i].push_back({effect, bend.reads + k});
      }
    }
  }
  std::size_t sweeps = 0;
  for (std::vector<Candidate>& all : of_cell) {
    const std::size_t kept = std::min(all.size(), most);
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                     [](const Candidate& a, const Candidate& b) { return a.effect > b.effect; });
    all.resize(kept);
    // What is smaller then makes later ones smaller.
    std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.element < b.element; });
    sweeps = std::max(sweeps, kept);
  }
  if (sweeps == 0) return;
  const bool has_gradient = std::exchange(block.shape.has_gradient, false);
  for (std::size_t k = 0; k < sweeps; ++k) {
    Elements elements;
    for (std::size_t i = 0; i < cell_lanes; ++i) elements[i] = k < of_cell[i].size() ? of_cell[i][k].element : 0;
    sweep(elements, block);
    for (std::size_t i = 0; i < cell_lanes; ++i) {
      if (k >= of_cell[i].size()) continue;
      double& radius = rounding_of(elements[i], block)[i];
      radius = std::min(radius, summed(block.sums[cell_lanes + i]));
    }
  }
  block.shape.has_gradient = has_gradient;
  sweep_from_output(block);
}

double* CellNetwork::rounding_of(std::size_t feature, CellBlock& block) const {
  return block.values(feature).radii + block.shape.rounding_row() * cell_lanes;
}

CellNetwork::Enclosed CellNetwork::enclosed(const CellBlock& block, const double* affine, const double* radii,
                                            std::size_t i) const {
  const std::size_t d = block.shape.dimension;
  Enclosed result;
  double deviation = radii[deviation_row * cell_lanes + i];
  for (std::size_t k = 0; k < block.shape.used; ++k) deviation += std::fabs(affine[(1 + d + k) * cell_lanes + i]);
  const double swept = summed(block.sums.data()[i]);
  result.middle = affine[i];
  result.rest = std::min(swept, deviation);
  result.is_known = block.poison.data()[i] == 0.0 && std::fabs(result.middle) < infinity && deviation < infinity;
  return result;
}

Interval CellNetwork::derivative(const CellBlock& block, const double* affine, const double* radii, std::size_t i,
                                 std::size_t j) const {
  const std::size_t d = block.shape.dimension;
  const double tangent = affine[(1 + j) * cell_lanes + i];
  double off = radii[(residual_row + j) * cell_lanes + i];
  for (std::size_t k = 0; k < block.shape.used; ++k)
    off += std::fabs(affine[(1 + d + k) * cell_lanes + i]) * block.turns.data()[(k * d + j) * cell_lanes + i];
  const double radius = summed(std::min(off, block.sums.data()[(2 + j) * cell_lanes + i]));
  const double least = sub_down(tangent, radius), most = add_up(tangent, radius);
  return least > -infinity && most < infinity && least <= most ? Interval(least, most) : Interval::whole();
}

void CellNetwork::enclose(std::span<const double> lower, std::span<const double> upper, CellQuestions questions,
                          CellBlock& block, CellAnswers& answers) const {
  start(dimension_, questions, block);
  const std::size_t cells = lower.size() / dimension_, affine_row = block.shape.affine() * cell_lanes;
  const CellValues x = block.values(0);
  for (std::size_t j = 0; j < dimension_; ++j) {
    for (std::size_t i = 0; i < cell_lanes; ++i) {
      const std::size_t cell = std::min(i, cells - 1);
      const double low = lower[cell * dimension_ + j], high = upper[cell * dimension_ + j];
      const double middle = low / 2.0 + high / 2.0;
      x.affine[j * affine_row + i] = middle;
      x.affine[j * affine_row + (1 + j) * cell_lanes + i] = 1.0;
      block.half[j * cell_lanes + i] = std::max({sub_up(high, middle), sub_up(middle, low), 0.0});
    }
  }
  follow(block);
  if (questions.rounding && questions.refined_radii > 0) refine(questions.refined_radii, block);

  const CellValues y = block.values(output_);
  answers.gradient_lower.resize(dimension_ * cell_lanes);
  answers.gradient_upper.resize(dimension_ * cell_lanes);
  for (std::size_t i = 0; i < cells; ++i) {
    const Enclosed enclosed = this->enclosed(block, y.affine, y.radii, i);
    double reach = 0.0;
    for (std::size_t j = 0; j < dimension_; ++j)
      reach += std::fabs(y.affine[(1 + j) * cell_lanes + i]) * block.half[j * cell_lanes + i];
    const double total = summed(reach + enclosed.rest);
    const bool is_known = enclosed.is_known && total < infinity;
    answers.lower[i] = is_known ? sub_down(enclosed.middle, total) : -infinity;
    answers.upper[i] = is_known ? add_up(enclosed.middle, total) : infinity;
    if (questions.rounding) {
      const double forward = y.radii[block.shape.rounding_row() * cell_lanes + i];
      const double error = std::min(summed(block.sums[cell_lanes + i]), forward);
      answers.rounding[i] = is_known && is_float32_ && error < infinity ? error : infinity;
    }
    for (std::size_t j = 0; questions.gradients && j < dimension_; ++j) {
      const Interval slope = is_known ? derivative(block, y.affine, y.radii, i, j) : Interval::whole();
      answers.gradient_lower[j * cell_lanes + i] = slope.lower();
      answers.gradient_upper[j * cell_lanes + i] = slope.upper();
    }
  }
}

void CellNetwork::enclose_pieces(const RayPieces& pieces, CellBlock& block, PieceAnswers& answers) const {
  start(1, {false, false}, block);
  const std::size_t count = pieces.first.size(), affine_row = block.shape.affine() * cell_lanes;
  const CellValues x = block.values(0);
  for (std::size_t i = 0; i < cell_lanes; ++i) {
    const std::size_t piece = std::min(i, count - 1);
    const double first = pieces.first[piece], last = pieces.last[piece], middle = first / 2.0 + last / 2.0;
    answers.at[i] = middle;
    block.half[i] = std::max({sub_up(last, middle), sub_up(middle, first), 0.0});
    for (std::size_t j = 0; j < dimension_; ++j) {
      const double from = pieces.origin[piece * dimension_ + j], along = pieces.direction[piece * dimension_ + j];
      x.affine[j * affine_row + i] = from + middle * along;
      x.affine[j * affine_row + cell_lanes + i] = along;
      x.radii[(j * block.shape.radii + deviation_row) * cell_lanes + i] =
          (std::fabs(from) + std::fabs(middle * along)) * 0x1p-51 + 0x1p-900;
    }
  }
  follow(block);
  // What the points are off by moves the output too.
  for (std::size_t j = 0; j < dimension_; ++j)
    for (std::size_t i = 0; i < cell_lanes; ++i)
      block.sums[i] +=
          std::fabs(block.row(block.g, j)[i]) * x.radii[(j * block.shape.radii + deviation_row) * cell_lanes + i];

  const CellValues y = block.values(output_);
  for (std::size_t i = 0; i < count; ++i) {
    const Enclosed enclosed = this->enclosed(block, y.affine, y.radii, i);
    const double rest = summed(enclosed.rest);
    const bool is_known = enclosed.is_known && rest < infinity;
    answers.middle[i] = is_known ? enclosed.middle : 0.0;
    answers.tangent[i] = is_known ? y.affine[cell_lanes + i] : 0.0;
    answers.rest[i] = is_known ? rest : infinity;
  }
}

}  // namespace driftbound::region
