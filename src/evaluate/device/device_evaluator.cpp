#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "driftbound/evaluate/cuda.hpp"
#include "driftbound/num/environment.hpp"
#include "evaluate/batch_program.hpp"
#include "evaluate/batches.hpp"
#include "evaluate/device/algorithms.hpp"
#include "evaluate/device/arithmetic.hpp"
#include "evaluate/device/device_node.hpp"
#include "evaluate/device/loader.hpp"
#include "evaluate/device/views.hpp"
#include "evaluate/nan.hpp"
#include "evaluate/provenance.hpp"
#include "evaluate/recorder.hpp"
#include "program/walk.hpp"

namespace driftbound {
namespace {

using namespace device;

/// One run of a graph: what is the same for every sample once a program, the rest batch after batch.
template <class Real>
class DeviceRun {
public:
  DeviceRun(const Graph& graph, const Batches& batches, const DeviceRules& rules, Device& device)
      : graph_(graph),
        batches_(batches),
        rules_(rules),
        device_(device),
        program_(graph, batches),
        recorder_(graph, batches),
        outputs_alone_(graph, batches) {}

  void run(bool check_observer_effect) {
    batches_.for_each([&](const Inputs& inputs, std::int64_t first, std::int64_t count) {
      if (program_.compile(inputs, count)) start_program();
      recorder_.start_batch(first, count);
      evaluate_batch(inputs, [&](std::size_t layer, const DeviceTensor& y) {
        recorder_.append(layer, y.shape, download_from(y));
      });
      if (check_observer_effect) evaluate_recording_outputs(inputs, first, count);
    });
  }

  std::vector<LayerTrace> take_layers() { return recorder_.take(rules_.arithmetic); }

  /// Of products whose algorithm was asked for.
  const AlgorithmsUsed& algorithms() const { return algorithms_; }

  /// Whether the outputs of the run that recorded every layer and of the one that did not are the same bits, in the
  /// samples that are recorded.
  ObserverEffect observer_effect() const {
    if (output_layers_.empty()) return ObserverEffect::not_checked;  // no output that a batch computes
    for (const std::size_t layer : output_layers_) {
      if (!recorder_.identical(outputs_alone_, layer)) return ObserverEffect::changed;
    }
    return ObserverEffect::none;
  }

private:
  using Use = std::function<void(std::size_t, const DeviceTensor&)>;

  /// Computes nodes of the program and passes on those that are layers.
  struct Domain {
    DeviceRun& run;
    const Use& use;

    void forward(std::size_t node) {
      const ValueId id = run.program().nodes()[node].output;
      const std::optional<std::size_t> layer = layer_of(run.program(), node);
      run.at_layer(run.program().flat().of_node[node], [&] {
        const auto add = [&](const driftbound_algorithm& algorithm) {
          run.algorithms_.add(run.graph_.nodes[run.program().flat().of_node[node]].name, algorithm);
        };
        DeviceTensor y = evaluate_on_device(run.program(), node, run.rules_, run.device_, *run.values_, add);
        if (layer) y = run.stored(y, id);
        run.values_->set(id, y);
        if (layer) use(*layer, y);
      });
    }
    void release(ValueId id) { run.values_->release(id); }
  };

  const Program& program() const { return *program_; }

  /// f(), with a failure told as what it means at a layer.
  template <class F>
  auto at_layer(std::size_t layer, F f) {
    try {
      return f();
    } catch (const DeviceFailure& failure) {
      throw_failure(failure, device_.info(), "layer '" + graph_.nodes[layer].name + "'");
    }
  }

  DeviceTensor stored(const DeviceTensor& y, ValueId id) {
    const FormatId format = stored_format(rules_.arithmetic, program().flat().graph.value(id).type);
    return rounded_on_device(y, format, rules_, device_, *values_);
  }

  void start_program() {
    const bool is_first = !values_;
    values_.emplace(program(), rules_.arithmetic, rules_.operands, device_);
    output_layers_.clear();
    for (const ValueId output : graph_.outputs) {
      const auto node = graph_.producer(output);
      if (node && program().varies(program().value_of_node(*node))) output_layers_.push_back(*node);
    }
    const Use use = [&](std::size_t layer, const DeviceTensor& y) {
      if (is_first) recorder_.record_once(layer, y.shape, download_from(y));
    };
    walk(program(), false, Domain{*this, use});
  }

  void evaluate_batch(const Inputs& inputs, const Use& use) {
    values_->start_batch(inputs);
    walk(program(), true, Domain{*this, use});
  }

  /// Nothing but the outputs leaves the device, and that when everything is computed.
  void evaluate_recording_outputs(const Inputs& inputs, std::int64_t first, std::int64_t count) {
    outputs_alone_.start_batch(first, count);
    std::vector<std::pair<std::size_t, DeviceTensor>> outputs;
    evaluate_batch(inputs, [&](std::size_t layer, const DeviceTensor& y) {
      if (std::find(output_layers_.begin(), output_layers_.end(), layer) != output_layers_.end())
        outputs.emplace_back(layer, y);
    });
    for (const auto& [layer, y] : outputs) {
      at_layer(layer, [&, &layer = layer, &y = y] { outputs_alone_.append(layer, y.shape, download_from(y)); });
    }
  }

  auto download_from(const DeviceTensor& y) {
    return [this, &y](std::int64_t first, std::int64_t count, Real* to) {
      device_.download(to, static_cast<const Real*>(y.data()) + first,
                       static_cast<std::uint64_t>(count) * sizeof(Real));
      unify_nans<Real>({to, static_cast<std::size_t>(count)});
    };
  }

  const Graph& graph_;
  const Batches& batches_;
  const DeviceRules& rules_;
  Device& device_;
  BatchProgram program_;
  std::optional<DeviceValues<Real>> values_;  ///< of the present program
  Recorder<Real> recorder_, outputs_alone_;
  std::vector<std::size_t> output_layers_;
  AlgorithmsUsed algorithms_;
};

std::string_view name_of(CudaProduct product) {
  switch (product) {
    case CudaProduct::vendor:
      return "cublas";
    case CudaProduct::vendor_pedantic:
      return "cublas-pedantic";
    case CudaProduct::by_algorithm:
      return "cublaslt";
    case CudaProduct::ordered:
      break;
  }
  return "ordered";
}

std::unique_ptr<Device> open_device(int ordinal) {
  const driftbound_device_functions& functions = load_cuda_module(module_folders());
  try {
    return std::make_unique<Device>(functions, ordinal);
  } catch (const DeviceFailure& failure) {
    throw_not_opened(failure);
  }
}

class CudaEvaluator final : public Evaluator::Implementation {
public:
  explicit CudaEvaluator(const CudaOptions& options)
      : options_(options),
        device_(open_device(options.device)),
        rules_(device_rules(options, cuda_arithmetic(options, device_->info()))) {
    const std::string environment = device_->info().environment;
    if (options.product != CudaProduct::ordered && !environment.empty()) {
      throw InvalidArgument("the environment sets " + environment +
                            ", which changes the arithmetic of cuBLAS behind its declared mode; unset it, or use "
                            "driftbound's own product (--gemm ordered)");
    }
  }

  ArithmeticModel arithmetic() const override { return rules_.arithmetic; }

  Trace run(const Graph& graph, const Inputs& inputs, const RunOptions& options) const override {
    require_sound_environment();
    const Batches batches(graph, inputs, options);
    const std::lock_guard<std::mutex> lock(mutex_);
    return rules_.arithmetic.accumulator == FormatId::fp32 ? run_as<float>(graph, batches, options)
                                                           : run_as<double>(graph, batches, options);
  }

private:
  template <class Real>
  Trace run_as(const Graph& graph, const Batches& batches, const RunOptions& options) const {
    DeviceRun<Real> run(graph, batches, rules_, *device_);
    run.run(options.check_observer_effect);
    Trace trace;
    trace.arithmetic = rules_.arithmetic;
    trace.provenance = provenance();
    for (const auto& [layer, words] : run.algorithms().by_layer())
      trace.provenance.details["algorithm of " + layer] = words;
    describe_batches(batches, trace.provenance);
    if (options.check_observer_effect) trace.provenance.observer_effect = run.observer_effect();
    trace.inputs = batches.recorded_inputs();
    trace.samples = batches.recorded_samples();
    trace.layers = run.take_layers();
    return trace;
  }

  Provenance provenance() const {
    const driftbound_device_info& info = device_->info();
    Provenance provenance = own_provenance();
    provenance.backend = info.backend;
    provenance.device = info.name;
    provenance.details = {
        {"gemm", std::string(name_of(options_.product))},
        {"math mode", math_mode(options_)},
        {"driver", cuda_version(info.driver_version)},
        {"runtime", cuda_version(info.runtime_version)},
        {"cuBLAS", blas_version(info.blas_version)},
        {"compute capability", std::to_string(info.compute_major) + "." + std::to_string(info.compute_minor)},
        {"multiprocessors", std::to_string(info.multiprocessors)},
        {"memory", std::to_string(info.memory_bytes) + " bytes"},
        {"kernel flags", info.build_flags},
    };
    if (options_.product == CudaProduct::by_algorithm)
      provenance.details["algorithm"] = std::to_string(options_.algorithm);
    if (*info.environment != '\0') provenance.details["environment"] = info.environment;
    return provenance;
  }

  CudaOptions options_;
  std::unique_ptr<Device> device_;
  DeviceRules rules_;
  mutable std::mutex mutex_;  ///< a device is used by one thread at a time
};

}  // namespace

Evaluator cuda_evaluator(const CudaOptions& options) {
  return Evaluator(std::make_shared<const CudaEvaluator>(options));
}

std::vector<std::string> cuda_algorithms(const CudaOptions& options, std::int64_t m, std::int64_t k, std::int64_t n) {
  const std::unique_ptr<Device> device = open_device(options.device);
  driftbound_product product{};
  product.m = m;
  product.k = k;
  product.n = n;
  const MatrixStrides a = matrix_strides(m, k, k, 1), b = matrix_strides(k, n, n, 1);
  product.a_row = a.row;
  product.a_col = a.col;
  product.b_row = b.row;
  product.b_col = b.col;
  std::vector<driftbound_algorithm> found(DRIFTBOUND_DEVICE_MAX_ALGORITHMS);
  std::int32_t count = 0;
  try {
    device->call(device->functions().algorithms, gemm_mode(options), &product, found.data(), &count);
  } catch (const DeviceFailure& failure) {
    throw_failure(failure, device->info(), "the list of algorithms");
  }
  found.resize(static_cast<std::size_t>(count));
  std::vector<std::string> words;
  for (const driftbound_algorithm& one : found) words.push_back(words_for(one));
  return words;
}

}  // namespace driftbound
