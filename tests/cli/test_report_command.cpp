#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "support/json_schema.hpp"
#include "support/npy_writer.hpp"
#include "support/onnx_writer.hpp"
#include "support/report_schema.hpp"
#include "support/run_program.hpp"

using driftbound::test::read_file;
using driftbound::test::TemporaryFolder;

namespace {

const std::string models = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/";

}  // namespace

TEST_CASE("report on every bundled network holds and its JSON satisfies the schema") {
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    if (entry.path().extension() != ".onnx") continue;
    CAPTURE(entry.path().filename().string());
    const ProgramResult result = run_program("report " + entry.path().string() + " --samples 4 --json -");
    CHECK(result.status == 0);
    const nlohmann::json report = nlohmann::json::parse(result.out);
    CHECK(schema_errors(schema_file, report) == "");
    CHECK((report["verdict"] == "holds" || report["verdict"] == "approaches"));
    CHECK(report["layers"].size() == report["model"]["nodes"].get<std::size_t>());
    CHECK(report["run"]["reference"]["undecided"] == 0);
  }
}

TEST_CASE("every arithmetic and order holds on the 2-10-10-2 network") {
  for (const char* arithmetic : {"fp64", "fp32", "tf32", "bf16", "fp16"})
    for (const char* order :
         {"sequential", "sequential+fma", "pairwise", "pairwise+fma", "blocked:4", "split-k:3+fma"}) {
      CAPTURE(arithmetic);
      CAPTURE(order);
      const ProgramResult result =
          run_program("report " + models + "mlp_2_10_10_2.onnx --samples 20 --json - --arithmetic " + arithmetic +
                      " --order " + order);
      CHECK(result.status == 0);
      CHECK(nlohmann::json::parse(result.out)["run"]["order"] == order);
    }
}

TEST_CASE("a captured trace gives the report of the run itself") {
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.safetensors"), model = models + "torus_sdf_softplus.onnx";
  REQUIRE(run_program("capture " + model + " --samples 5 --seed 7 -o " + trace).status == 0);
  const auto direct = nlohmann::json::parse(run_program("report " + model + " --samples 5 --seed 7 --json -").out);
  const auto traced = nlohmann::json::parse(run_program("report " + model + " --trace " + trace + " --json -").out);
  REQUIRE(direct["layers"].size() == traced["layers"].size());
  for (std::size_t i = 0; i < direct["layers"].size(); ++i) {
    CHECK(direct["layers"][i]["local"]["max_error"] == traced["layers"][i]["local"]["max_error"]);
    CHECK(direct["layers"][i]["accumulated"]["max_error"] == traced["layers"][i]["accumulated"]["max_error"]);
    CHECK(direct["layers"][i]["status"] == traced["layers"][i]["status"]);
  }
}

TEST_CASE("threads and batch size do not change the report") {
  const std::string base = "report " + models + "oscillator_d2_w16.onnx --samples 9 --backend cpu --json - ";
  auto one = nlohmann::json::parse(run_program(base + "--threads 1").out);
  auto three = nlohmann::json::parse(run_program(base + "--threads 3 --batch 2").out);
  for (std::size_t i = 0; i < one["layers"].size(); ++i) {
    CHECK(one["layers"][i]["local"]["worst"] == three["layers"][i]["local"]["worst"]);
    CHECK(one["layers"][i]["accumulated"]["worst"] == three["layers"][i]["accumulated"]["worst"]);
  }
}

TEST_CASE("scalars appear beside the outputs") {
  const auto report = nlohmann::json::parse(
      run_program("report " + models +
                  "mlp_2_10_10_2.onnx --samples 5 --json - --scalar 'logits[1]-logits[0]' --scalar 'logits[0]'")
          .out);
  REQUIRE(report["end_to_end"]["outputs"].size() == 3);
  CHECK(report["end_to_end"]["outputs"][1]["name"] == "logits[1]-logits[0]");
  CHECK(report["end_to_end"]["outputs"][1]["bounds"][0]["violations"] == 0);
}

TEST_CASE("parts by layer add up to the error of a scalar and of an output of one number") {
  for (const char* arguments :
       {"torus_sdf_softplus.onnx --samples 5", "oscillator_d2_w16.onnx --samples 5 --scalar 'logits[1]-logits[0]'",
        "mlp_2_10_10_2.onnx --samples 5 --arithmetic bf16 --scalar 'logits[0]'"}) {
    CAPTURE(arguments);
    const auto report = nlohmann::json::parse(run_program("report " + models + arguments + " --json -").out);
    CHECK(schema_errors(schema_file, report) == "");
    const auto& output = report["end_to_end"]["outputs"].back();
    const auto& breakdown = output["breakdown"];
    REQUIRE(breakdown.is_object());
    const double error = breakdown["error"];
    double parts = breakdown["inputs"], shares = 0.0;
    REQUIRE(breakdown["layers"].size() == report["layers"].size());
    for (std::size_t i = 0; i < report["layers"].size(); ++i) {
      const auto& layer = breakdown["layers"][i];
      CHECK(layer["layer"] == report["layers"][i]["name"]);
      CHECK(report["layers"][i]["attribution"]["share"] == layer["part"].get<double>() / error);
      parts += layer["part"].get<double>();
      shares += layer["bound_share"].get<double>();
    }
    CHECK(std::abs(error) == output["max_error"].get<double>());
    CHECK(std::abs(parts - error) <= 1e-6 * std::abs(error));
    CHECK(shares > 0.5);
    CHECK(shares <= 1.0 + 1e-12);
  }
}

TEST_CASE("--box bounds an output at every point of a box, and refuses what is none") {
  const std::string report = "report " + models + "torus_sdf_softplus.onnx --samples 5 --domain 0.1:0.1001 ";
  const ProgramResult result = run_program(report + "--box 0.1:0.1001 --json -");
  REQUIRE(result.status == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out), output = json["end_to_end"]["outputs"][0];
  CHECK(schema_errors(schema_file, json) == "");
  CHECK(output["box"]["guarantee"] == "conditional");  // on the accuracy of softplus
  CHECK(output["box"]["error"] >= output["max_error"]);
  CHECK(output["box"]["error"] < 1e-3);
  CHECK(run_program(report + "--box 0.1:0.1001").out.find("any run at every point of 0.1:0.1001: error at most") !=
        std::string::npos);
  const std::string several = "report " + models + "mlp_2_10_10_2.onnx --samples 5 --box 0.1:0.1001";
  CHECK(run_program(several).out.find("No bound over the box: no output is one number") != std::string::npos);
  CHECK(run_program(several + " --scalar logits[0]").out.find("No bound over the box") == std::string::npos);
  for (const char* box : {"1", "1:0", "nan:1", "0:1,0:1,0:1,0:1"})
    CHECK(run_program(report + "--box " + box).status == 3);
}

TEST_CASE("the report on the demo network says first what holds, what is violated and what comes nearest") {
  const std::string text =
      run_program("report " + models + "oscillator_d4_w64.onnx --domain -0.2:0.2 --samples 50").out;
  const std::string first = text.substr(0, text.find("\n\n"));
  CHECK(first.starts_with("HOLDS, approached: every proven and conditional bound holds on "));
  CHECK(first.find("Closest, ") != std::string::npos);
  CHECK(first.find("Folklore |error| <= gamma_n |y| is violated by ") != std::string::npos);
}

TEST_CASE("--bounds without attribution breaks nothing up") {
  const std::string base = "report " + models + "torus_sdf_softplus.onnx --samples 3 --json - --bounds forward";
  const auto without = nlohmann::json::parse(run_program(base).out),
             with = nlohmann::json::parse(run_program(base + ",attribution").out);
  CHECK(without["end_to_end"]["outputs"][0]["breakdown"].is_null());
  CHECK(without["layers"][0]["attribution"]["share"].is_null());
  CHECK(with["end_to_end"]["outputs"][0]["breakdown"]["layers"][0]["bound_share"].is_null());
  CHECK(with["end_to_end"]["outputs"][0]["bounds"].size() == 1);
}

TEST_CASE("--quiet prints only the verdict, --explain every column, and a pipe gets no escapes") {
  const std::string base = "report " + models + "mlp_2_10_10_2.onnx --samples 3 ";
  const ProgramResult quiet = run_program(base + "--quiet");
  CHECK(quiet.out.empty());
  CHECK(quiet.err.rfind("HOLDS", 0) == 0);
  const ProgramResult explained = run_program(base + "--explain");
  CHECK(explained.out.find("What the columns say") != std::string::npos);
  CHECK(explained.out.find('\033') == std::string::npos);
  CHECK(explained.err.empty());
}

TEST_CASE("--fail-on approach turns an approached bound into exit status 1") {
  const std::string base = "report " + models + "mlp_2_10_10_2.onnx --samples 50 --threshold 0.01 --quiet ";
  CHECK(run_program(base).status == 0);
  CHECK(run_program(base + "--fail-on approach").status == 1);
}

TEST_CASE("inspect lists layers, shapes and parameters") {
  const ProgramResult result = run_program("inspect " + models + "mlp_2_10_10_2.onnx");
  CHECK(result.status == 0);
  CHECK(result.out.find("parameters  162") != std::string::npos);
  CHECK(result.out.find("[1, 10]") != std::string::npos);
}

TEST_CASE("inspect --ops prints docs/ops.md without a model; with one, or with neither, it is bad usage") {
  const ProgramResult result = run_program("inspect --ops");
  CHECK(result.status == 0);
  CHECK((result.out == read_file(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/ops.md")));
  CHECK(run_program("inspect").status == 3);
  CHECK(run_program("inspect --ops " + models + "mlp_2_10_10_2.onnx").status == 3);
}

TEST_CASE("inspect --functions prints docs/functions.md") {
  const ProgramResult result = run_program("inspect --functions");
  CHECK(result.status == 0);
  INFO("regenerate it: driftbound inspect --functions > docs/functions.md");
  CHECK((result.out == read_file(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/functions.md")));
}

TEST_CASE("networks as PyTorch exports them report, and every bound holds") {
  for (const char* network : {"vit_tiny.onnx", "unet_tiny.onnx"}) {
    CAPTURE(network);
    const ProgramResult result = run_program("report " DRIFTBOUND_SOURCE_DIR "/examples/vision/" +
                                             std::string(network) + " --samples 2 --quiet");
    CHECK(result.status == 0);
  }
}

TEST_CASE("real networks from elsewhere report, or inspect names what is missing") {
  const char* data = std::getenv("DRIFTBOUND_TEST_DATA");
  if (data == nullptr) {
    MESSAGE("skipped: DRIFTBOUND_TEST_DATA is not set");
    return;
  }
  const std::string root = data;
  std::vector<std::string> files = {"neural-implicit-queries/fox.npz", "neural-implicit-queries/bunny.npz"};
  for (const auto& entry : std::filesystem::directory_iterator(root + "/vnncomp2021")) {
    if (entry.path().extension() == ".onnx") files.push_back("vnncomp2021/" + entry.path().filename().string());
  }
  for (const std::string& file : files) {
    CAPTURE(file);
    const ProgramResult result = run_program("report " + root + "/" + file + " --samples 3 --json -");
    CHECK(result.status == 0);
    if (result.status == 0) CHECK(schema_errors(schema_file, nlohmann::json::parse(result.out)) == "");
  }
  const ProgramResult infinite =
      run_program("inspect " + root +
                  "/onnx-node/test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal/model.onnx");
  CHECK(infinite.status == 3);
  CHECK(infinite.out.find("Attention") != std::string::npos);
  CHECK(infinite.out.find("minus infinity") != std::string::npos);
}

TEST_CASE("an interrupted report ends with status 130 and says what it covers") {
  const TemporaryFolder folder;
  const std::string json = folder.file("r.json");
  const ProgramResult result =
      run_program("report " + models + "oscillator_d8_w64.onnx --samples 100000 --json " + json,
                  "timeout --foreground --preserve-status -s INT 2 ");
  CHECK(result.status == 130);
  if (!std::filesystem::exists(json)) return;  // stopped while evaluating: nothing to report on
  const auto report = nlohmann::json::parse(read_file(json));
  CHECK(report["run"]["interrupted"] == true);
  CHECK(report["inputs"]["samples"] < 100000);
  CHECK(result.out.find("Interrupted after") != std::string::npos);
}

TEST_CASE("a report on some bounds says of how many values they decide, and which layers nothing was held against") {
  const TemporaryFolder folder;
  const std::string xml = folder.file("r.xml"), json = folder.file("r.json");
  const ProgramResult result =
      run_program("report " + models + "oscillator_d2_w16.onnx --samples 5 --quiet --bounds partial-sums --json " +
                  json + " --junit " + xml);
  CHECK(result.status == 0);
  const auto report = nlohmann::json::parse(read_file(json));
  CHECK(schema_errors(schema_file, report) == "");
  int checked = 0, compared = 0, skipped = 0;
  for (const auto& layer : report["layers"]) {
    const bool has_bound = !layer["local"]["bounds"].empty();
    CHECK((layer["status"] == "not checked") == !has_bound);
    CHECK(layer["compared"] == 5 * layer["outputs"].get<int>());
    CHECK(layer["checked"] == (has_bound ? layer["compared"].get<int>() : 0));
    checked += layer["checked"].get<int>();
    compared += layer["compared"].get<int>();
    skipped += has_bound ? 0 : 1;
  }
  REQUIRE(checked > 0);
  REQUIRE(skipped > 1);
  const std::string counts = " on " + std::to_string(checked) + " of " + std::to_string(compared) + " outputs of " +
                             std::to_string(report["layers"].size()) + " layers (5 samples); " +
                             std::to_string(skipped) + " layers not checked.";
  CHECK(result.err.find(counts) != std::string::npos);
  CHECK(read_file(xml).find("skipped=\"" + std::to_string(skipped) + "\"") != std::string::npos);
}

TEST_CASE("replay decides where it is asked for alone; what measures the error of the run does not") {
  const std::string report =
      "report " + models + "oscillator_d2_w16.onnx --samples 5 --backend cpu --quiet --threshold 0 --bounds ";
  const ProgramResult replay = run_program(report + "replay");
  CHECK(replay.status == 0);
  CHECK(replay.err.starts_with("HOLDS: every proven and conditional bound holds on 10 of "));
  CHECK(replay.err.find("Closest") == std::string::npos);
  for (const std::string name : {"shadow", "seed-gamma,shadow"}) {
    const ProgramResult measured = run_program(report + name);
    CHECK(measured.status == 1);
    CHECK(measured.err.starts_with("UNDECIDED: nothing was held against a proven or conditional bound"));
  }
}

TEST_CASE("a trace that states no arithmetic is judged by an assumed one, which the first sentence says") {
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.safetensors"), model = models + "mlp_2_10_10_2.onnx";
  const std::string stated = "arithmetic", hidden = "Arithmetic";  // a key that nothing reads
  REQUIRE(run_program("capture " + model + " --samples 3 --quiet -o " + trace).status == 0);
  std::string bytes = read_file(trace);
  const std::size_t at = bytes.find("\"" + stated + "\":");
  REQUIRE(at != std::string::npos);
  folder.write("t.safetensors", bytes.replace(at + 1, stated.size(), hidden));
  const std::string judge = "report " + model + " --quiet --trace " + trace;
  CHECK(run_program(judge).err.find(" Assuming fp32 in order unknown (default: the trace states no arithmetic).") !=
        std::string::npos);
  CHECK(run_program("report " + model + " --quiet --samples 3").err.find("Assuming") == std::string::npos);
}

TEST_CASE("a file that cannot be written costs no other file, and no verdict") {
  if (!std::filesystem::exists("/dev/full")) return;
  const TemporaryFolder folder;
  const std::string csv = folder.file("r.csv");
  const ProgramResult result = run_program(
      "report " + models + "mlp_2_10_10_2.onnx --samples 2 --json /dev/full --junit /dev/full --csv " + csv);
  CHECK(result.status == 3);
  CHECK(result.err.find("/dev/full") != std::string::npos);
  CHECK(result.out.find("HOLDS") != std::string::npos);
  CHECK(read_file(csv).find("componentwise") != std::string::npos);
}

TEST_CASE("traces and references are not written under the name of another format") {
  const TemporaryFolder folder;
  const std::string model = models + "mlp_2_10_10_2.onnx", npz = folder.file("t.npz"), json = folder.file("t.json");
  for (const std::string& command :
       {"capture " + model + " -o " + npz, "report " + model + " --samples 1 --save-trace " + npz,
        "report " + model + " --samples 1 --save-reference " + json}) {
    CAPTURE(command);
    const ProgramResult result = run_program(command);
    CHECK(result.status == 3);
    CHECK(result.err.find(".safetensors") != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(npz));
  CHECK_FALSE(std::filesystem::exists(json));
}

TEST_CASE("inspect keeps its columns behind long names") {
  const ProgramResult result =
      run_program("inspect " + std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/vision/unet_tiny.onnx");
  REQUIRE(result.status == 0);
  const std::size_t head = result.out.find("   # layer"), end = result.out.find('\n', head);
  const std::size_t row = result.out.find("   2 /down1");
  REQUIRE(row != std::string::npos);
  CHECK(result.out.find('\n', row) - row == end - head);
}

namespace {

/// x [N, 3] in float16 times weights, with the product cast to float32 where it is `mixed`.
std::string half_model(const TemporaryFolder& folder, bool mixed) {
  using namespace driftbound::test;
  OnnxModel model(13);
  model.input("x", {"N", std::int64_t{3}}, onnx_float16);
  model.initializer(onnx_tensor_header("w", onnx_float16, {3, 1})
                        .bytes(9, std::string("\x9a\x39\x66\x3a\x33\x3b", 6)));  // 0.7, 0.8, 0.9, about
  model.node("MatMul", {"x", "w"}, mixed ? "h" : "y", {}, "product");
  if (mixed) model.node("Cast", {"h"}, "y", {OnnxAttribute::of_int("to", 1)}, "wide");
  return model.output("y").save(folder.file(mixed ? "mixed.onnx" : "half.onnx")).string();
}

nlohmann::json report_of(const std::string& arguments) {
  return nlohmann::json::parse(run_program("report " + arguments + " --samples 5 --json -").out);
}

}  // namespace

TEST_CASE("a model that declares float16 results is run so, and --store says otherwise") {
  const TemporaryFolder folder;
  const std::string model = half_model(folder, false), mixed = half_model(folder, true);
  const auto error_of = [&](const std::string& arguments) {
    const nlohmann::json report = report_of(arguments);
    CHECK(report["verdict"] != "violated");
    return report["end_to_end"]["outputs"][0]["max_error"].get<double>();
  };
  CHECK(error_of(model) > 0x1p-13);
  CHECK(error_of(mixed) > 0x1p-13);
  CHECK(error_of(model + " --store fp32") < 0x1p-20);
  CHECK(error_of(model + " --arithmetic fp64") < 0x1p-48);
  CHECK(error_of(model + " --store bf16") > 0x1p-10);
  CHECK(report_of(model)["run"]["arithmetic"]["stores_declared_types"] == true);
  CHECK_FALSE(report_of(model + " --store fp32")["run"]["arithmetic"].contains("stores_declared_types"));
  const std::string text = run_program("report " + mixed + " --samples 5").out;
  CHECK(text.find("results fp16 and fp32, as the model declares them.") != std::string::npos);
  CHECK(run_program("report " + model + " --samples 5 --store fp32").out.find("The model declares float16 results") !=
        std::string::npos);
  const ProgramResult refused = run_program("report " + mixed + " --samples 5 --store bf16");
  CHECK(refused.status == 3);
  CHECK(refused.err.find("casts between float types") != std::string::npos);
}

TEST_CASE("a captured run of stored results is judged as the run itself") {
  const TemporaryFolder folder;
  const std::string model = half_model(folder, true), trace = folder.file("t.safetensors");
  REQUIRE(run_program("capture " + model + " --samples 5 -o " + trace).status == 0);
  const auto direct = report_of(model);
  const auto traced = nlohmann::json::parse(run_program("report " + model + " --trace " + trace + " --json -").out);
  CHECK(direct["end_to_end"]["outputs"][0]["max_error"] == traced["end_to_end"]["outputs"][0]["max_error"]);
}

TEST_CASE("of a large output the largest values are followed, and a question about all of them stays open") {
  const std::string run = "report " + std::string(DRIFTBOUND_SOURCE_DIR) +
                          "/examples/vision/unet_tiny.onnx --samples 2 --bounds componentwise,adjoint/any-order ";
  const ProgramResult result = run_program(run + "--json -");
  CHECK(result.status == 0);
  const auto report = nlohmann::json::parse(result.out);
  CHECK(schema_errors(schema_file, report) == "");
  const auto& output = report["end_to_end"]["outputs"][0];
  const auto& bounds = output["bounds"];
  const auto any_order = std::find_if(bounds.begin(), bounds.end(),
                                      [](const auto& bound) { return bound["name"] == "adjoint/any-order"; });
  REQUIRE(any_order != bounds.end());
  const std::int64_t checked = (*any_order)["checked"], silent = (*any_order)["without_statement"];
  CHECK(checked >= 32);
  CHECK(silent > 0);
  CHECK(checked + silent == output["elements"]);
  CHECK(report["open_questions"].empty());
  CHECK(run_program(run).out.find(std::to_string(checked) + " of " + std::to_string(checked + silent) + " values") !=
        std::string::npos);
  const ProgramResult required = run_program(run + "--require any-run");
  CHECK(required.status == 1);
  CHECK(required.out.find("no such bound was computed for some values") != std::string::npos);
}

TEST_CASE("bounds that would take more memory than is allowed are left out by name") {
  const std::string model = models + "mlp_2_10_10_2.onnx --samples 5 ";
  const auto report = nlohmann::json::parse(run_program("report " + model + "--json - --memory 0.001M").out);
  CHECK(schema_errors(schema_file, report) == "");
  CHECK((report["verdict"] == "holds" || report["verdict"] == "approaches"));
  const auto& left_out = report["run"]["bounds_left_out"];
  CHECK(std::find(left_out.begin(), left_out.end(), "adjoint/any-order") != left_out.end());
  CHECK(std::find(left_out.begin(), left_out.end(), "shadow") == left_out.end());
  for (const auto& bound : report["end_to_end"]["outputs"][0]["bounds"]) CHECK(bound["name"] != "adjoint/any-order");
  CHECK(run_program("report " + model + "--memory 0.001M").out.find("Left out, as they would take about") !=
        std::string::npos);
  CHECK(nlohmann::json::parse(run_program("report " + model + "--json - --memory 1G").out)["run"]["bounds_left_out"]
            .empty());
  for (const char* size : {"1", "G", "-1G", "nanG", "1e60G"}) {
    const ProgramResult refused = run_program("report " + model + "--memory " + size);
    CHECK(refused.status == 3);
    CHECK(refused.err.find("800M, 12G") != std::string::npos);
  }
}

TEST_CASE("a mask that is given as floats may hold minus infinity, next to scores that may not") {
  using namespace driftbound::test;
  const TemporaryFolder folder;
  const std::string model = folder.file("m.onnx");
  folder.write("m.onnx", OnnxModel(14)
                             .input("x", {2, 3})
                             .input("mask", {2, 3})
                             .node("Add", {"x", "mask"}, "seen")
                             .node("Softmax", {"seen"}, "y", {OnnxAttribute::of_int("axis", -1)})
                             .output("y")
                             .bytes());
  const float hidden = -std::numeric_limits<float>::infinity();
  const auto inputs = [&](float x, float mask) {
    return folder
        .write("in.npz", zip_of({{"x.npy", npy_of<float>("<f4", {2, 3}, {x, 1, 2, 3, 4, 5})},
                                 {"mask.npy", npy_of<float>("<f4", {2, 3}, {0, mask, 0, 0, 0, mask})}}))
        .string();
  };
  const ProgramResult masked = run_program("report " + model + " " + inputs(1.0F, hidden));
  CHECK(masked.status == 0);
  CHECK(masked.out.rfind("HOLDS", 0) == 0);
  CHECK(run_program("report " + model + " " + inputs(hidden, hidden)).status == 3);
  CHECK(run_program("report " + model + " " + inputs(1.0F, -hidden)).status == 3);
}
