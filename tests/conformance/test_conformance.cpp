// Every evaluator of the library goes through the one suite.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "conformance/judged.hpp"
#include "driftbound/evaluate/evaluate_as.hpp"
#include "support/environment.hpp"

namespace {

using namespace conformance;
using driftbound::test::ScopedVariable;

const std::vector<const char*> narrow_arithmetics = {"fp32", "tf32", "bf16", "fp16"};
const std::vector<const char*> orders = {"sequential", "pairwise", "pairwise+fma", "blocked:2", "split-k:3+fma"};

Backend cpu(const char* arithmetic, const char* order) {
  const ArithmeticModel model = cpu_arithmetic(arithmetic, parse_summation_order(order));
  return backend_of(cpu_evaluator(model), std::string("cpu ") + arithmetic + " " + order, "cpu");
}

Backend on_device(const char* arithmetic, CudaProduct product, const char* order) {
  CudaOptions options;
  options.arithmetic = arithmetic;
  options.product = product;
  options.order = parse_summation_order(order);
  return device(options);
}

ScopedVariable with_host_module() {
  return ScopedVariable("DRIFTBOUND_PLUGIN_PATH", DRIFTBOUND_HOST_MODULE_FOLDER);
}

/// The formulas in double with the machine's functions, as a program that records its runs.
Backend formulas_in_double() {
  Backend backend;
  backend.name = "formulas in double";
  backend.provenance = "formulas";
  backend.declares_its_bits = false;
  backend.arithmetic = cpu_arithmetic("fp64", parse_summation_order("unknown"));
  for (FunctionAccuracy& function : backend.arithmetic.functions) {
    if (function.function == "sqrt") continue;
    function = {function.function, 8.0, Evidence::assumed, "the machine's library"};
  }
  backend.arithmetic.evidence = Evidence::assumed;
  backend.arithmetic.source = "a formula evaluator";
  backend.run = [arithmetic = backend.arithmetic](const Graph& graph, const Inputs& inputs, const RunOptions&) {
    Trace trace;
    trace.arithmetic = arithmetic;
    trace.provenance.program = "formulas";
    trace.provenance.backend = "formulas";
    trace.inputs = inputs;
    trace.samples = 1;
    trace.layers.push_back({graph.nodes[0].name, StoredTensor::from(evaluate_as<double>(graph, inputs).at(0))});
    return trace;
  };
  return backend;
}

TEST_CASE("the CPU evaluator, in every arithmetic" * doctest::test_suite("campaign")) {
  for (const char* arithmetic : narrow_arithmetics) {
    check_all(cpu(arithmetic, "blocked:2"));
    check_judged(cpu(arithmetic, "blocked:2"));
  }
  check_all(cpu("fp64", "sequential"));
  check_judged(cpu("fp64", "sequential"));
}

TEST_CASE("the CPU evaluator, in every order") {
  for (const char* order : orders) {
    check_every_op(cpu("fp32", order));
    check_within_bounds(cpu("fp32", order));
  }
}

TEST_CASE("the device's own product, on the host double of the module") {
  const ScopedVariable path = with_host_module();
  for (const char* arithmetic : narrow_arithmetics) {
    for (const char* order : orders) check_every_op(on_device(arithmetic, CudaProduct::ordered, order));
    check_all(on_device(arithmetic, CudaProduct::ordered, "blocked:2+fma"));
  }
  check_judged(on_device("fp32", CudaProduct::ordered, "pairwise"));
  check_all(on_device("fp64", CudaProduct::ordered, "sequential"));
  check_judged(on_device("fp64", CudaProduct::ordered, "sequential"));
}

TEST_CASE("the vendor's products, on the host double of the module" * doctest::test_suite("campaign")) {
  const ScopedVariable path = with_host_module();
  for (const char* arithmetic : narrow_arithmetics) {
    check_all(on_device(arithmetic, CudaProduct::vendor, "blocked:8"));
    check_judged(on_device(arithmetic, CudaProduct::vendor, "blocked:8"));
  }
}

TEST_CASE("recorded runs, through trace files") {
  const ScopedVariable path = with_host_module();
  for (const Backend& backend :
       {cpu("fp32", "blocked:2"), cpu("fp64", "sequential"), on_device("fp16", CudaProduct::ordered, "sequential"),
        on_device("tf32", CudaProduct::vendor, "blocked:8")}) {
    check_every_op(recorded(backend));
    check_special_values(recorded(backend));
    check_within_bounds(recorded(backend));
    check_nothing_passes_by_nan(recorded(backend));
  }
}

TEST_CASE("the formulas in double") {
  const Backend backend = formulas_in_double();
  check_every_op(backend);
  check_judged(backend);
}

TEST_CASE("the CUDA module, where there is a GPU: $DRIFTBOUND_GPU_MODULE, or the one installed") {
  std::optional<ScopedVariable> path;
  if (const char* const module = std::getenv("DRIFTBOUND_GPU_MODULE"))
    path.emplace("DRIFTBOUND_PLUGIN_PATH", std::filesystem::path(module).parent_path().string());
  try {
    on_device("fp32", CudaProduct::ordered, "sequential");
  } catch (const NotAvailable& why) {
    MESSAGE("skipped: " << std::string(why.what()));
    return;
  }
  for (const char* arithmetic : narrow_arithmetics) {
    for (const CudaProduct product : {CudaProduct::ordered, CudaProduct::vendor}) {
      check_all(on_device(arithmetic, product, "blocked:8+fma"));
      check_judged(on_device(arithmetic, product, "blocked:8+fma"));
    }
  }
}

}  // namespace
