#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "driftbound/model/load.hpp"
#include "driftbound/trace/trace.hpp"
#include "support/json_schema.hpp"
#include "support/npy_writer.hpp"
#include "support/recording.hpp"
#include "support/run_program.hpp"
#include "support/text.hpp"

using namespace driftbound;
using driftbound::test::TemporaryFolder;

namespace {

const std::string model = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/mlp_2_10_10_2.onnx";
const std::string drift_schema = std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/drift-1.json";

/// y = exp(x), with one element moved by `units` of its last place.
void write_recording(const std::string& file, int units, float first = 0.25F) {
  test::RecordingWriter writer;
  Tensor<float> x({2, 3}, {first, 0.5F, -1.0F, 0.125F, 2.0F, -0.75F}), y = x;
  for (float& value : y.values) value = std::exp(value);
  for (int i = 0; i < units; ++i) y.values[4] = std::nextafter(y.values[4], 100.0F);
  writer.value("x", StoredTensor::from(x));
  writer.value("y", StoredTensor::from(y));
  writer.record("aten::exp", {"x"}, {"y"}, {}, "act");
  writer.write(file);
}

}  // namespace

TEST_CASE("drift compares recordings, and its exit status is the verdict") {
  const TemporaryFolder folder;
  const std::string a = folder.file("a.safetensors"), b = folder.file("b.safetensors"),
                    c = folder.file("c.safetensors"), d = folder.file("d.safetensors");
  write_recording(a, 0);
  write_recording(b, 1);
  write_recording(c, 9000);
  write_recording(d, 0, 0.375F);
  const ProgramResult honest = run_program("drift " + a + " " + b + " --json -");
  CHECK(honest.status == 0);
  const nlohmann::json json = nlohmann::json::parse(honest.out);
  CHECK(schema_errors(drift_schema, json) == "");
  CHECK(json["verdict"] == "expected");
  CHECK(json["drifts"][0]["ops"][0]["difference"]["differing"] == 1);
  CHECK(json["drifts"][0]["ops"][0]["difference"]["ulps"] == 1.0);
  const ProgramResult wrong = run_program("drift " + a + " " + b + " " + c);
  CHECK(wrong.status == 2);
  CHECK(contains(wrong.out, "BUG: " + c + ": at 'act/aten::exp'"));
  CHECK(contains(run_program("drift " + a + " " + b + " --quiet").err, "EXPECTED"));
  const ProgramResult other = run_program("drift " + a + " " + d);
  CHECK(other.status == 2);
  CHECK(contains(other.out, "the runs read other numbers: 1 of 6 elements of 'x' differ"));
  const ProgramResult making = run_program("drift " + a + " " + b + " --orders pairwise sequential");
  CHECK(making.status == 3);
  CHECK(contains(making.err, "make runs of a model"));
}

TEST_CASE("drift makes runs of a model in several orders and arithmetics, and compares each with the first") {
  const ProgramResult orders = run_program(
      "drift " + model + " --samples 20 --orders sequential pairwise blocked:2 --arithmetics fp32 bf16 --json -");
  CHECK(orders.status == 0);
  const nlohmann::json json = nlohmann::json::parse(orders.out);
  CHECK(schema_errors(drift_schema, json) == "");
  CHECK(json["verdict"] == "expected");
  REQUIRE(json["drifts"].size() == 3);
  CHECK(json["runs"][2]["file"] == "fp32, blocked:2");
  const nlohmann::json& last = json["drifts"][2]["ops"].back();
  CHECK(last["apart_at_most"].get<double>() > last["difference"]["largest"].get<double>());
  CHECK(json["drifts"][0]["decisions"][0]["rows"] == 20);
  CHECK(json["drifts"][0]["decisions"][0]["certain"].get<int>() > 15);
  CHECK(json["classes"].size() == 4);
  CHECK(json["runs"][1]["seconds"].is_number());
  CHECK(run_program("drift " + model + " --orders sequential").status == 3);
  CHECK(run_program("drift " + model).status == 3);
}

TEST_CASE("drift names the classes of runs whose outputs are the same bit for bit") {
  const ProgramResult runs = run_program("drift " + model + " --samples 20 --batches 20 1 7 --threads 1 2 --json -");
  CHECK(runs.status == 0);
  const nlohmann::json json = nlohmann::json::parse(runs.out);
  CHECK(schema_errors(drift_schema, json) == "");
  REQUIRE(json["runs"].size() == 4);  // a row of driftbound's own evaluator does not depend on others
  CHECK(json["classes"] ==
        nlohmann::json({{"the model's type, batch 20, 1 thread", "the model's type, batch 1, 1 thread",
                         "the model's type, batch 7, 1 thread", "the model's type, batch 20, 2 threads"}}));
  const ProgramResult text = run_program("drift " + model + " --samples 20 --orders sequential pairwise sequential");
  CHECK(contains(text.out, "within each of 2 classes"));
  CHECK(contains(text.out, "last result off by"));
  CHECK(run_program("drift " + model + " --backends gpu cpu").status == 3);
}

TEST_CASE("drift runs a model with single layers in float64, and compares the error predicted and measured") {
  const ProgramResult runs = run_program("drift " + model + " --samples 60 --promote best --json -");
  CHECK(runs.status == 0);
  const nlohmann::json json = nlohmann::json::parse(runs.out);
  CHECK(schema_errors(drift_schema, json) == "");
  REQUIRE(json["runs"].size() == 4);
  CHECK(json["runs"][0]["predicted_rms"].is_null());
  const double before = json["runs"][0]["rms"].get<double>(), after = json["runs"][1]["rms"].get<double>();
  CHECK(after < before);
  CHECK(json["runs"][1]["predicted_rms"].get<double>() < before);
  CHECK(json["target"].is_string());
  const ProgramResult text = run_program("drift " + model + " --samples 20 --promote head/Gemm:fp64");
  CHECK(contains(text.out, "rms of the target"));
  CHECK(contains(text.out, "'head/Gemm' in float64"));
  const ProgramResult remedies = run_program("drift " + model +
                                             " --samples 60 --arithmetics tf32 --promote head/Gemm:3xtf32 "
                                             "head/Gemm:compensated head/Gemm --json -");
  CHECK(remedies.status == 0);
  const nlohmann::json of_remedies = nlohmann::json::parse(remedies.out);
  CHECK(schema_errors(drift_schema, of_remedies) == "");
  const auto rms = [&](std::size_t run) { return of_remedies["runs"][run]["rms"].get<double>(); };
  CHECK(of_remedies["runs"][1]["file"] == "'head/Gemm' by 3xTF32");
  CHECK(rms(1) < rms(0));
  CHECK(std::abs(rms(1) - rms(3)) < 0.01 * rms(3));
  CHECK(std::abs(rms(2) - rms(0)) < 0.01 * rms(0));
  const ProgramResult no_tf32 = run_program("drift " + model + " --promote head/Gemm:3xtf32");
  CHECK(no_tf32.status == 3);
  CHECK(contains(no_tf32.err, "for runs that read them in TF32"));
  const ProgramResult other = run_program("drift " + model + " --promote nothing");
  CHECK(other.status == 3);
  CHECK(contains(other.err, "there is no such layer"));
}

TEST_CASE("drift --leak runs a model with other rows beside each row") {
  const ProgramResult runs = run_program("drift " + model + " --samples 9 --leak --json -");
  CHECK(runs.status == 0);
  const nlohmann::json json = nlohmann::json::parse(runs.out);
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/leak-1.json", json) == "");
  CHECK(json["findings"].size() == 7);
  CHECK(json["rows"] == nlohmann::json({0, 3, 6, 8}));
  CHECK(contains(run_program("drift " + model + " --samples 9 --leak").out, "no row answers"));
  CHECK(run_program("drift " + model + " --samples 1 --leak").status == 3);
  CHECK(run_program("drift " + model + " --leak --orders sequential pairwise").status == 3);
  for (const char* decisions : {"--flips", "--chosen classes.npy", "--tolerances json tolerances.json"}) {
    const ProgramResult refused = run_program("drift " + model + " --leak " + decisions);
    CHECK(refused.status == 3);
    CHECK(contains(refused.err, "leave out --chosen, --flips and --tolerances"));
  }
}

TEST_CASE("drift --chosen compares the log-probabilities of the classes given") {
  const TemporaryFolder folder;
  const std::vector<std::int64_t> classes = {1, 0, 0, 1};
  const std::string chosen = folder.write("chosen.npy", test::npy_of("<i8", {4}, classes)).string();
  const std::string command = "drift " + model + " --samples 4 --orders sequential pairwise --chosen ";
  const ProgramResult runs = run_program(command + chosen + " --json -");
  CHECK(runs.status == 0);
  const nlohmann::json json = nlohmann::json::parse(runs.out), decisions = json["drifts"][0]["decisions"][0];
  CHECK(schema_errors(drift_schema, json) == "");
  CHECK(decisions["chosen_given"] == true);
  for (std::size_t row = 0; row < classes.size(); ++row) CHECK(decisions["by_row"][row]["chosen"] == classes[row]);
  CHECK(contains(run_program(command + chosen).out, "the class chosen"));
  const auto refusal = [&](const std::string& file) {
    const ProgramResult refused = run_program(command + file);
    CHECK(refused.status == 3);
    return refused.err;
  };
  const auto write = [&](std::vector<std::int64_t> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return folder.write("other.npy", test::npy_of("<i8", {count}, values)).string();
  };
  CHECK(contains(refusal(write({1, 0})), "give one for every row"));
  CHECK(contains(refusal(write({1, 0, 2, 0})), "chooses class 2"));
  const std::string real = folder.write("real.npy", test::npy_of("<f4", {1}, std::vector<float>{1.0F})).string();
  CHECK(contains(refusal(real), "are integers"));
  CHECK(run_program(command + folder.file("none.npy")).status == 3);
}

TEST_CASE("drift compares traces of a model on the same inputs") {
  const TemporaryFolder folder;
  const std::string a = folder.file("a.safetensors"), b = folder.file("b.safetensors"),
                    c = folder.file("c.safetensors");
  REQUIRE(run_program("capture " + model + " --samples 9 --order sequential -o " + a).status == 0);
  REQUIRE(run_program("capture " + model + " --samples 9 --order pairwise -o " + b).status == 0);
  REQUIRE(run_program("capture " + model + " --samples 9 --seed 5 -o " + c).status == 0);
  const ProgramResult same = run_program("drift " + model + " " + a + " " + b);
  CHECK(same.status == 0);
  CHECK(contains(same.out, "EXPECTED: rounding explains what differs"));
  const ProgramResult other = run_program("drift " + model + " " + a + " " + c);
  CHECK(other.status == 3);
  CHECK(contains(other.err, "the runs are of different inputs"));
}

TEST_CASE("drift refuses a trace that lacks an output, and names a record of no layer") {
  const TemporaryFolder folder;
  const std::string whole = folder.file("whole.safetensors"), lacking = folder.file("lacking.safetensors"),
                    more = folder.file("more.safetensors");
  REQUIRE(run_program("capture " + model + " --samples 9 -o " + whole).status == 0);
  Trace trace = read_trace(load_model(model), sha256_of_file(model), whole);
  trace.layers.push_back({"foo", StoredTensor::from(Tensor<float>(trace.layers.back().output.shape()))});
  write_trace(trace, more);
  const ProgramResult named = run_program("drift " + model + " " + whole + " " + more);
  CHECK(named.status == 0);
  CHECK(contains(named.out, "Not compared: a record that may be of no layer"));
  trace.layers.resize(trace.layers.size() - 2);
  write_trace(trace, lacking);
  for (const std::string& files : {whole + " " + lacking, lacking + " " + whole}) {
    const ProgramResult refused = run_program("drift " + model + " " + files);
    CHECK(refused.status == 3);
    CHECK(contains(refused.err, "lacking.safetensors: the output"));
  }
  CHECK(run_program("drift " + model + " " + lacking + " " + lacking).status == 0);
}
