// Runs recorded on real GPUs, judged on any machine (tests/data/gpu/README.md).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "driftbound/evaluate/cuda.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "model/safetensors.hpp"
#include "soundness/bundled.hpp"
#include "soundness/soundness_check.hpp"
#include "support/recorded_provenance.hpp"
#include "support/temporary_folder.hpp"

namespace driftbound {
namespace {

namespace fs = std::filesystem;
using namespace soundness;

const fs::path models = fs::path(DRIFTBOUND_SOURCE_DIR) / "examples/models";
const fs::path recorded = fs::path(DRIFTBOUND_SOURCE_DIR) / "tests/data/gpu";
constexpr const char* host_double = "host double";

std::vector<fs::path> recorded_traces() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(recorded))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// The bundled model that a trace names by its hash.
/// Throws:    InvalidArgument where there is none
fs::path model_of(const fs::path& trace) {
  const SafetensorsFile file(trace);
  const auto named = file.metadata().find("model_sha256");
  for (const fs::path& model : models_in(models))
    if (named != file.metadata().end() && sha256_of_file(model) == named->second) return model;
  throw InvalidArgument(trace.string() + ": of no bundled model");
}

struct Judgement {
  std::string device;
  std::string lacking;  ///< what the provenance does not say
  Tally tally;

  bool holds() const {
    return lacking.empty() && tally.failures.empty() && tally.violations() == 0 && tally.undecided() == 0 &&
           tally.not_finite == 0 && tally.checked() > 0;
  }
};

Judgement judge(const fs::path& file) {
  const fs::path model = model_of(file);
  const Graph graph = load_model(model);
  const Trace trace = read_trace(graph, sha256_of_file(model), file);
  Judgement judgement;
  judgement.device = trace.provenance.device;
  judgement.lacking = test::lacking_provenance(trace.provenance);
  check_trace(
      graph, trace, [&] { return file.filename().string(); }, {}, judgement.tally);
  return judgement;
}

/// A run of a bundled network through the double of the CUDA module.
Trace run_of_the_double(const fs::path& model, const std::string& arithmetic) {
  ::setenv("DRIFTBOUND_PLUGIN_PATH", DRIFTBOUND_HOST_MODULE_FOLDER, 1);
  const Graph graph = load_model(model);
  InputGenerator generator;
  generator.samples = 20;
  CudaOptions options;
  options.arithmetic = arithmetic;
  RunOptions run;
  run.batch = 20;
  run.rows = {0, 7, 19};
  Trace trace = cuda_evaluator(options).run(graph, generate_inputs(graph, generator), run);
  trace.model_sha256 = sha256_of_file(model);
  return trace;
}

}  // namespace

TEST_CASE("every run recorded on a GPU says where it comes from, and keeps every proven and conditional bound") {
  const std::vector<fs::path> traces = recorded_traces();
  if (traces.empty()) MESSAGE("tests/data/gpu holds no trace: no run on a GPU has been recorded yet");
  for (const fs::path& trace : traces) {
    CAPTURE(trace.string());
    const Judgement judgement = judge(trace);
    CHECK(judgement.device != host_double);
    CHECK(judgement.lacking == "");
    for (const std::string& failure : judgement.tally.failures) FAIL_CHECK(failure);
    CHECK(judgement.holds());
    MESSAGE(trace.filename().string() << " on " << judgement.device << ": " << judgement.tally.checked()
                                      << " comparisons hold");
  }
}

TEST_CASE("a run in TF32 shows which products cuBLAS made without rounding their operands") {
  const fs::path file = recorded / "oscillator_d4_w16.tf32-cublas.b10000.safetensors";
  const fs::path model = model_of(file);
  const Graph graph = load_model(model);
  BoundOptions options;
  options.requests = {BoundKind::rounded_shadow};
  const Bounds bounds = bound(graph, read_trace(graph, sha256_of_file(model), file), options);
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const std::string& name = graph.nodes[node].name;
    CAPTURE(name);
    const bool is_product = std::holds_alternative<op::Gemm>(graph.nodes[node].op);
    const bool is_square = is_product && name != "stem/Gemm" && name != "head/Gemm";  // 10000 x 16 x 16
    CHECK(bounds.layers[node].reading.has_value() == is_product);
    if (is_product) CHECK(bounds.layers[node].reading == (is_square ? Reading::as_given : Reading::nearest_even));
  }
}

TEST_CASE("runs of the CUDA module's double are judged as runs of a GPU would be") {
  const test::TemporaryFolder folder;
  for (const std::string arithmetic : {"fp64", "fp32", "tf32", "bf16", "fp16"})
    for (const char* network : {"mlp_2_10_10_2.onnx", "siren.onnx"}) {
      CAPTURE(network);
      CAPTURE(arithmetic);
      write_trace(run_of_the_double(models / network, arithmetic), folder / "t.safetensors");
      const Judgement judgement = judge(folder / "t.safetensors");
      CHECK(judgement.device == host_double);
      CHECK(judgement.lacking == "");
      for (const std::string& failure : judgement.tally.failures) FAIL_CHECK(failure);
      CHECK(judgement.holds());
    }
}

TEST_CASE("a recorded run that breaks a bound, hides its origin or is of another model is found out") {
  const test::TemporaryFolder folder;
  const fs::path file = folder / "t.safetensors";
  const Trace good = run_of_the_double(models / "mlp_2_10_10_2.onnx", "tf32");

  Trace wrong = good;
  Tensor<double> values = wrong.layers[0].output.to_double();
  values.values[3] *= 1.01;
  wrong.layers[0].output = StoredTensor::from(values);
  write_trace(wrong, file);
  CHECK(judge(file).tally.violations() > 0);

  for (const auto& forget : std::vector<void (*)(Provenance&)>{
           [](Provenance& p) { p.device.clear(); }, [](Provenance& p) { p.date.clear(); },
           [](Provenance& p) { p.program.clear(); }, [](Provenance& p) { p.details.erase("driver"); },
           [](Provenance& p) { p.backend = "cpu"; }, [](Provenance& p) { p.batch = 0; }}) {
    Trace anonymous = good;
    forget(anonymous.provenance);
    write_trace(anonymous, file);
    CHECK(judge(file).lacking != "");
  }

  Trace foreign = good;
  foreign.model_sha256 = std::string(64, 'f');
  write_trace(foreign, file);
  CHECK_THROWS_AS(judge(file), InvalidArgument);
}

}  // namespace driftbound
