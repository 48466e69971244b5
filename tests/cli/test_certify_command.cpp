#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/load.hpp"
#include "support/json_schema.hpp"
#include "support/npy_reader.hpp"
#include "support/npy_writer.hpp"
#include "support/onnx_writer.hpp"
#include "support/run_program.hpp"

using namespace driftbound;
using driftbound::test::npy_of;
using driftbound::test::npy_of_file;
using driftbound::test::read_file;
using driftbound::test::TemporaryFolder;

namespace {

const std::string models = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/";
const std::string sphere = models + "sphere_cut_sdf_relu.onnx";
const std::string schema_file = std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/certify-1.json";

nlohmann::json json_of(const ProgramResult& result) {
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(schema_errors(schema_file, json) == "");
  CHECK(json["points"] == json["positive"].get<int>() + json["negative"].get<int>() + json["zero"].get<int>() +
                              json["undecided"].get<int>());
  return json;
}

std::vector<int> signs_in(const std::string& file) {
  const std::vector<double> values = npy_of_file(file).to_double().values;
  return {values.begin(), values.end()};
}

std::vector<int> signs_by_library(const std::string& model, const std::vector<double>& points) {
  const SignField field(load_model(model));
  std::vector<PointSign> signs(points.size() / field.dimension());
  field.signs(points.data(), static_cast<std::int64_t>(signs.size()), static_cast<std::ptrdiff_t>(field.dimension()), 1,
              signs);
  std::vector<int> numbers;
  for (const PointSign& sign : signs) numbers.push_back(static_cast<int>(sign.sign));
  return numbers;
}

/// |x|: two rectifiers, so that 0 is a proven zero at 0.
std::string write_absolute_value(const TemporaryFolder& folder) {
  return folder
      .write("abs.npz", test::zip_of({{"0000.dense.A.npy", npy_of<float>("<f4", {1, 2}, {1, -1})},
                                      {"0001.relu._.npy", npy_of<float>("<f4", {1}, {0})},
                                      {"0002.dense.A.npy", npy_of<float>("<f4", {2, 1}, {1, 1})}}))
      .string();
}

/// Two outputs that are the same function of x, of which no precision can know that they are.
std::string write_twins(const TemporaryFolder& folder) {
  return folder
      .write("twins.npz", test::zip_of({{"0000.dense.A.npy", npy_of<float>("<f4", {1, 1}, {1})},
                                        {"0001.tanh._.npy", npy_of<float>("<f4", {1}, {0})},
                                        {"0002.dense.A.npy", npy_of<float>("<f4", {1, 2}, {1, 1})}}))
      .string();
}

std::string output_of(const std::string& model) {
  const Graph graph = load_model(model);
  return graph.value(graph.outputs.front()).name;
}

void check_refused(const std::string& arguments, const std::string& named) {
  CAPTURE(arguments);
  const ProgramResult result = run_program("certify " + arguments);
  CAPTURE(result.err);
  CHECK(result.status == 3);
  CHECK(result.out.empty());
  CHECK(result.err.find(named) != std::string::npos);
}

struct StoppedRun {
  int extent = 0;  ///< points along the first axis of its grid of extent x 64 x 64
  nlohmann::json report;
};

/// Interrupts a run that writes `signs` when it has certified some points of its grid, not all. Tries later interruptions
/// where no point was certified, and larger grids where all were: how long either takes depends on the machine.
StoppedRun stop_within_grid(const std::string& arguments, const std::string& signs) {
  double seconds = 0.3;
  for (int extent = 40; extent < 100000 && seconds < 60.0;) {
    std::filesystem::remove(signs);
    const ProgramResult result = run_program(
        "certify " + arguments + " --grid " + std::to_string(extent) + "x64x64 --resume --json - --signs " + signs,
        "timeout --foreground --preserve-status -s INT " + std::to_string(seconds) + " ");
    if (result.status == 0) {
      extent *= 2;
      continue;
    }
    REQUIRE(result.status == 130);
    if (!result.out.empty()) {
      const nlohmann::json report = json_of(result);
      if (report["points"] > 0) return {extent, report};
    }
    seconds *= 1.5;
  }
  FAIL("no run was interrupted between its first point and its last");
  return {};
}

}  // namespace

TEST_CASE("points of a file are certified as the library does, and the counts are those of the file of signs") {
  const TemporaryFolder folder;
  std::vector<double> points;
  for (int i = 0; i < 3 * 5000; ++i) points.push_back(std::sin(1.7 * i));
  folder.write("p.npy", npy_of("<f8", {5000, 3}, points));
  const ProgramResult result = run_program("certify " + sphere + " --points " + folder.file("p.npy") + " --signs " +
                                           folder.file("s.npy") + " --json " + folder.file("s.json"));
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(result.out.starts_with("CERTIFIED: the sign of sdf at all 5000 points: "));
  const std::vector<int> signs = signs_in(folder.file("s.npy"));
  CHECK(signs == signs_by_library(sphere, points));
  const auto json = json_of({0, read_file(folder.file("s.json")), ""});
  CHECK(json["points"] == 5000);
  CHECK(json["negative"] == std::count(signs.begin(), signs.end(), -1));
  CHECK(json["positive"] == std::count(signs.begin(), signs.end(), 1));
  CHECK(json["interrupted"] == false);
  std::int64_t decided = 0;
  for (const auto& stage : json["stages"]) decided += stage["decided"].get<std::int64_t>();
  CHECK(decided == 5000);
}

TEST_CASE("a grid, a segment, a band and a table of points are certified") {
  const TemporaryFolder folder;
  const std::string signs = folder.file("s.npy");
  REQUIRE(run_program("certify " + sphere + " --grid 2x3x4 --box 0:0.5 --signs " + signs).status == 0);
  std::vector<double> grid;
  for (int i = 0; i < 24; ++i) {
    grid.push_back(i / 12 % 2 * 0.5);
    grid.push_back(i / 4 % 3 * 0.25);
    grid.push_back(i % 4 == 3 ? 0.5 : i % 4 * (0.5 / 3.0));
  }
  CHECK(signs_in(signs) == signs_by_library(sphere, grid));

  REQUIRE(run_program("certify " + sphere + " --segment 0:1,0.5,-1:5 --signs " + signs).status == 0);
  CHECK(signs_in(signs) ==
        signs_by_library(sphere, {0, 0, 0, 0.25, 0.125, -0.25, 0.5, 0.25, -0.5, 0.75, 0.375, -0.75, 1, 0.5, -1}));

  const auto band = json_of(run_program("certify " + sphere + " --band 1e-3 --samples 500 --json -"));
  CHECK(band["points"] == 500);
  CHECK(band["negative"] > 50);
  CHECK(band["positive"] > 50);

  folder.write("p.csv", "x,y,z\n0,0,0\n1,1,1\n");
  REQUIRE(run_program("certify " + sphere + " --points " + folder.file("p.csv") + " --signs " + signs).status == 0);
  CHECK(signs_in(signs) == signs_by_library(sphere, {0, 0, 0, 1, 1, 1}));
}

TEST_CASE("a scalar and an iso value say whose sign it is, and a proven zero is 0") {
  const TemporaryFolder folder;
  const std::string base = "certify " + models + "mlp_2_10_10_2.onnx --grid 9x9 --json - --scalar ";
  const auto there = json_of(run_program(base + "'logits[1]-logits[0]'"));
  const auto back = json_of(run_program(base + "'logits[0]-logits[1]'"));
  CHECK(there["scalar"] == "logits[1]-logits[0]");
  CHECK(there["positive"] == back["negative"]);
  CHECK(json_of(run_program(base + "'logits[0]' --iso 1e6"))["negative"] == 81);

  const std::string absolute = write_absolute_value(folder), signs = folder.file("s.npy");
  // Its zero on the segment is one that f only touches, which is not resolved.
  CHECK(run_program("certify " + absolute + " --segment=-1:1:5 --signs " + signs).status == 1);
  CHECK(signs_in(signs) == std::vector<int>{1, 1, 0, 1, 1});
  REQUIRE(run_program("certify " + absolute + " --grid 3 --signs " + signs).status == 0);
  CHECK(signs_in(signs) == std::vector<int>{1, 0, 1});
  REQUIRE(run_program("certify " + absolute + " --segment=-1:1:5 --iso 0.5 --signs " + signs).status == 0);
  CHECK(signs_in(signs) == std::vector<int>{1, 0, -1, 0, 1});
  for (const std::string half : {"0x1p-1", "0x.8", "0x8p-4"}) {
    REQUIRE(run_program("certify " + absolute + " --segment=-1:1:5 --iso " + half + " --signs " + signs).status == 0);
    CHECK(signs_in(signs) == std::vector<int>{1, 0, -1, 0, 1});
  }
  REQUIRE(run_program("certify " + absolute + " --segment=-1:1:5 --iso=-0x1p-1 --signs " + signs).status == 0);
  CHECK(signs_in(signs) == std::vector<int>{1, 1, 1, 1, 1});
  for (const std::string bad : {"0x", "0x-1", "0x1q", "-0x", "1p-1", "--1"})
    check_refused(absolute + " --segment=-1:1:5 --iso=" + bad,
                  "'" + bad + "' is not a number; write it as -0.25 or -0x1p-2");
  // In 64 bits a tie between two doubles, and not one of them in truth.
  const std::string nearly_tie = "2.210368091799779";
  REQUIRE(
      run_program("certify " + absolute + " --segment=" + nearly_tie + ":3:2 --iso " + nearly_tie + " --signs " + signs)
          .status == 0);
  CHECK(signs_in(signs) == std::vector<int>{0, 1});
}

TEST_CASE("on a segment all zeros are found, and those of a run are told apart") {
  const TemporaryFolder folder;
  const std::string absolute = write_absolute_value(folder);
  const auto exact = json_of(run_program("certify " + absolute + " --segment=-1:1:6 --iso 0.5 --json -"));
  REQUIRE(exact["zeros"].size() == 2);
  for (const std::size_t i : {0U, 1U}) {
    CHECK(exact["zeros"][i]["t"][0] <= 0.25 + 0.5 * static_cast<double>(i));
    CHECK(exact["zeros"][i]["t"][1] >= 0.25 + 0.5 * static_cast<double>(i));
    CHECK(exact["zeros"][i]["crossing"] == (i == 0 ? "falling" : "rising"));
  }
  CHECK(exact["segment"]["from"] == nlohmann::json{-1.0});
  CHECK(exact["computed_sign_changes"] == 2);
  CHECK(exact["true_zeros"] == 2);
  const auto coarse = json_of(run_program("certify " + absolute + " --segment=-1:1:2 --iso 0.5 --json -"));
  CHECK(coarse["missed_zeros"] == 2);
  CHECK(coarse["computed_sign_changes"] == 0);

  const std::string line = "certify " + models + "oscillator_d2_w16.onnx --scalar 'logits[1]-logits[0]' " +
                           "--segment=-0.2,0.3,-0.2:0.2,0.3,-0.2:2000 --json - --arithmetic ";
  const auto fp64 = json_of(run_program(line + "fp64")), bf16 = json_of(run_program(line + "bf16"));
  CHECK(fp64["zeros"] == bf16["zeros"]);
  CHECK(fp64["zeros"].size() > 0);
  CHECK(fp64["unresolved"].empty());
  CHECK(fp64["true_zeros"] == fp64["zeros"].size());
  CHECK(bf16["false_zeros"] > 0);
  CHECK(bf16["segment"]["arithmetic"].get<std::string>().starts_with("bf16 in order "));
  const std::string text = run_program("certify " + absolute + " --segment=-1:1:6 --iso 0.5").out;
  CHECK(
      text.ends_with("; 0 missed.\n  t = 0.25               falling  at (-0.5)\n"
                     "  t = 0.75               rising   at (0.5)\n"));
  CHECK(text.find("Zeros on the segment: 2 certified, and there are no others. Samples in fp32") != std::string::npos);
  CHECK(text.find("show 2: 2 true, 0 false; 0 missed.") != std::string::npos);
  check_refused(absolute + " --grid 5 --arithmetic tf32", "on a --segment");
}

TEST_CASE("of many zeros on a segment the first ten are printed, the others counted") {
  const std::string line = "certify " + models + "oscillator_d4_w64.onnx --scalar 'logits[1]-logits[0]' " +
                           "--segment=-0.2,0.3,-0.2:0.2,0.3,-0.2:1000 --threads 2";
  const auto json = json_of(run_program(line + " --json -"));
  const std::size_t zeros = json["zeros"].size();
  REQUIRE(zeros > 10);
  const std::string text = run_program(line).out;
  std::size_t rows = 0;
  for (std::size_t at = text.find("\n  t = "); at != std::string::npos; at = text.find("\n  t = ", at + 1)) {
    const double t = std::stod(text.substr(at + 7)), exact = json["zeros"][rows++]["t"][0];
    CHECK(std::abs(t - exact) <= 1e-11);
    const std::size_t point = text.find(" at (", at);
    CHECK(std::abs(std::stod(text.substr(point + 5)) - (-0.2 + 0.4 * exact)) <= 1e-8);
  }
  CHECK(rows == 10);
  CHECK(text.ends_with("\n  and " + std::to_string(zeros - 10) + " more in --json\n"));
}

TEST_CASE("values of another program decide what their arithmetic can, and the field the rest") {
  const TemporaryFolder folder;
  std::vector<float> points;
  for (int i = 0; i < 3 * 9000; ++i) points.push_back(static_cast<float>(std::sin(1.7 * i)));
  folder.write("p.npy", npy_of("<f4", {9000, 3}, points));
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>({9000, 3}, points)));
  const Graph graph = load_model(sphere);
  inputs.tensors.front().first = graph.value(graph.inputs.front()).name;
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("pairwise")));
  const std::vector<double> values = evaluator.run(graph, inputs).layers.back().output.to_double().values;
  folder.write("v.npy", npy_of("<f4", {9000}, std::vector<float>(values.begin(), values.end())));
  folder.write("a.json", to_json(evaluator.arithmetic()));
  const std::string base = "certify " + sphere + " --points " + folder.file("p.npy") + " --signs ";
  REQUIRE(run_program(base + folder.file("alone.npy")).status == 0);
  for (const std::string& arithmetic :
       {std::string("--arithmetic fp32"), "--arithmetic-file " + folder.file("a.json")}) {
    CAPTURE(arithmetic);
    const auto json = json_of(
        run_program(base + folder.file("s.npy") + " --json - --values " + folder.file("v.npy") + " " + arithmetic));
    CHECK((read_file(folder.file("s.npy")) == read_file(folder.file("alone.npy"))));
    const auto& stage = json["stages"][5];
    CHECK(stage["name"] == "given");
    CHECK(stage["decided"] > 1000);
    CHECK(stage["decided"] < 9000);
    const std::string declared =
        json["values"]["guarantee"] == "proven" ? "fp32 in order pairwise" : "fp32 in order unknown";
    CHECK(json["values"]["arithmetic"] == declared);
    const ProgramResult quiet =
        run_program(base + folder.file("s.npy") + " --quiet --values " + folder.file("v.npy") + " " + arithmetic);
    CHECK(quiet.err.starts_with("CERTIFIED if the values are of a run of " + declared + ": the sign of sdf at"));
  }
  const std::string given = sphere + " --points " + folder.file("p.npy") + " --values ";
  folder.write("short.npy", npy_of<float>("<f4", {2}, {1, 2}));
  check_refused(given + folder.file("short.npy"),
                "short.npy: holds 2 rows of 1 numbers; give one value for each of the 9000");
  check_refused(given + folder.file("v.npy") + " --arithmetic fp64", "--arithmetic-file");
  check_refused(given + folder.file("v.npy") + " --arithmetic tf32 --arithmetic-file " + folder.file("a.json"),
                "--arithmetic and --arithmetic-file exclude each other");
  check_refused(given + folder.file("v.npy") + " --backend cpu", "--backend and --values exclude each other");
  check_refused(given + folder.file("v.npy") + " --arithmetic-file " + folder.file("none"), "cannot read");
  check_refused(sphere + " --grid 3x3x3 --values " + folder.file("v.npy"), "name it with --points");
}

TEST_CASE("values that no run of the declared arithmetic has are found out") {
  const TemporaryFolder folder;
  std::vector<double> points, values;
  for (int i = 0; i < 3 * 3000; ++i) points.push_back(static_cast<float>(std::sin(1.7 * i)));
  const SignField field(load_model(sphere));
  std::vector<PointSign> signs(3000);
  field.signs(points.data(), 3000, 3, 1, signs);
  for (const PointSign& sign : signs) values.push_back(sign.value);
  folder.write("p.npy", npy_of("<f8", {3000, 3}, points));
  const std::string base = sphere + " --points " + folder.file("p.npy") + " --signs " + folder.file("s.npy") +
                           " --values " + folder.file("v.npy");
  const auto with_values = [&](double factor, double shift) {
    std::vector<double> changed;
    for (const double value : values) changed.push_back(factor * value + shift);
    folder.write("v.npy", npy_of("<f8", {3000}, changed));
  };
  with_values(1.0, 0.0);
  CHECK(run_program("certify " + base).status == 0);
  const std::vector<std::pair<double, double>> changes = {{-1.0, 0.0}, {1.0, 0.1}, {1.0, -1e9}, {0.0, 0.0}};
  for (const auto& change : changes) {
    CAPTURE(change.first);
    CAPTURE(change.second);
    with_values(change.first, change.second);
    std::filesystem::remove(folder.file("s.npy"));
    check_refused(base, "v.npy: the value of point ");
    CHECK_FALSE(std::filesystem::exists(folder.file("s.npy")));
  }
}

TEST_CASE("a file that describes no arithmetic is refused by name, with what is wrong where, and what there is") {
  const TemporaryFolder folder;
  folder.write("p.npy", npy_of<double>("<f8", {1, 3}, {0, 0, 0}));
  folder.write("v.npy", npy_of<double>("<f8", {1}, {1}));
  const auto refused = [&](const std::string& text, const std::string& named) {
    folder.write("typo.json", text);
    const std::string arguments = sphere + " --points " + folder.file("p.npy") + " --values " + folder.file("v.npy") +
                                  " --arithmetic-file " + folder.file("typo.json");
    check_refused(arguments, "typo.json: arithmetic: " + named);
    const std::string said = run_program("certify " + arguments).err;
    CHECK(said.find("json.exception") == std::string::npos);
    CHECK(said.find("write an arithmetic as docs/file-formats.md has it") != std::string::npos);
  };
  refused(R"({"name":"n","input":"fp8","accumulator":"fp32","output":"fp32"})",
          "field 'input': no format 'fp8'; there are: fp64, fp32, tf32, bf16, fp16, fp8_e4m3, fp8_e5m2");
  refused("name = fp32", "not valid JSON: parse error at line 1, column 2: ");
  refused("[]", "expected a JSON object");
}

TEST_CASE("what no precision decides is 2 and exit status 1, an error, or taken for a sign and counted apart") {
  const TemporaryFolder folder;
  const std::string twins = write_twins(folder), output = output_of(twins), signs = folder.file("s.npy");
  const std::string base = "certify " + twins + " --segment 0.25:0.75:3 --max-precision 128 --scalar '" + output +
                           "[1]-" + output + "[0]' --signs " + signs;
  const ProgramResult reported = run_program(base + " --json -");
  CHECK(reported.status == 1);
  CHECK(json_of(reported)["undecided"] == 3);
  CHECK(signs_in(signs) == std::vector<int>{2, 2, 2});
  CHECK(run_program(base).out.starts_with("UNDECIDED: the sign of " + output + "[1]-" + output + "[0] at 3 of all 3"));

  std::filesystem::remove(signs);
  const ProgramResult thrown = run_program(base + " --policy throw");
  CHECK(thrown.status == 1);
  CHECK(thrown.err.find("point 0, (0.25), is not decided with 128 bits") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(signs));

  const ProgramResult taken = run_program(base + " --policy negative --json -");
  CHECK(taken.status == 1);
  CHECK(json_of(taken)["negative"] == 3);
  CHECK(json_of(taken)["stages"].back()["decided"] == 3);
  CHECK(signs_in(signs) == std::vector<int>{-1, -1, -1});
}

TEST_CASE("an interrupted run keeps what it did, and resumed gives the same file bit for bit") {
  const TemporaryFolder folder;
  const std::string cut = folder.file("cut.npy"), whole = folder.file("whole.npy");
  const auto [extent, partial] = stop_within_grid(sphere + " --threads 2", cut);
  const std::string base = "certify " + sphere + " --grid " + std::to_string(extent) + "x64x64 --json - --signs ";
  CHECK_FALSE(std::filesystem::exists(cut));
  CHECK(partial["interrupted"] == true);
  CHECK(partial["requested"] == extent * 64 * 64);
  CHECK(partial["points"] < partial["requested"]);
  check_refused("--grid 3x3x3 " + sphere + " --signs " + cut, "add --resume");
  check_refused("--grid 3x3x3 " + sphere + " --resume --signs " + cut, "is of a run with other points; ");
  check_refused("--grid " + std::to_string(extent) + "x64x64 " + sphere + " --iso 0.5 --resume --signs " + cut,
                "other --iso");

  check_refused("--grid " + std::to_string(extent) + "x64x64 " + models + "siren.onnx --resume --signs " + cut,
                "is of a run of another model");

  const ProgramResult resumed = run_program(base + cut + " --resume --threads 1");
  CHECK(resumed.status == 0);
  REQUIRE(run_program(base + whole).status == 0);
  CHECK((read_file(cut) == read_file(whole)));
  const auto json = json_of(resumed);
  CHECK(json["points"] == json["requested"]);
  const std::vector<int> signs = signs_in(cut);
  CHECK(json["negative"] == std::count(signs.begin(), signs.end(), -1));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("a run stopped after its signs keeps these, and says what is missing" * doctest::test_suite("campaign")) {
  const TemporaryFolder folder;
  const std::string signs = folder.file("signs.npy"), json = folder.file("report.json");
  const std::string command =
      "certify " + sphere + " --segment 0:1:1000000 --resume --threads 1 --signs " + signs + " --json " + json;
  ProgramResult stopped;
  for (double seconds = 0.1; !std::filesystem::exists(signs); seconds *= 1.5) {
    std::filesystem::remove(json);
    stopped = run_program(command, "timeout --foreground --preserve-status -s INT " + std::to_string(seconds) + " ");
    REQUIRE(stopped.status == 130);
  }
  CHECK(stopped.err.find("signs.npy holds all signs; the same command makes the report") != std::string::npos);
  CHECK(signs_in(signs).size() == 1000000);
  CHECK_FALSE(std::filesystem::exists(json));
}

TEST_CASE("--quiet prints the verdict alone, and a pipe gets neither progress nor escapes") {
  const ProgramResult quiet = run_program("certify " + sphere + " --grid 9x9x9 --quiet");
  CHECK(quiet.status == 0);
  CHECK(quiet.out.empty());
  CHECK(quiet.err.starts_with("CERTIFIED"));
  const ProgramResult shown = run_program("certify " + sphere + " --grid 9x9x9");
  CHECK(shown.err.empty());
  CHECK(shown.out.find('\033') == std::string::npos);
  CHECK(shown.out.find("points/s") != std::string::npos);
}

TEST_CASE("bad points, networks and options are refused by name, with exit status 3") {
  const TemporaryFolder folder;
  const std::string mlp = models + "mlp_2_10_10_2.onnx";
  const double inf = std::numeric_limits<double>::infinity();
  folder.write("nan.npy", npy_of<double>("<f8", {2, 3}, {0, 0, 0, 0, std::nan(""), 0}));
  folder.write("inf.npy", npy_of<double>("<f8", {2, 3}, {0, 0, 0, 0, 0, -inf}));
  folder.write("far.npy", npy_of<double>("<f8", {2, 3}, {0, 0, 0, 1e39, 0, 0}));
  folder.write("two.npy", npy_of<double>("<f8", {2, 2}, {0, 0, 0, 0}));
  folder.write("whole.npy", npy_of<std::int64_t>("<i8", {1, 3}, {0, 0, 0}));
  folder.write("none.npy", npy_of<double>("<f8", {0, 3}, {}));
  const auto points = [&](const std::string& name) { return sphere + " --points " + folder.file(name); };
  check_refused(points("nan.npy"), "nan.npy: coordinate 1 of point 1 is nan; leave such points out");
  check_refused(points("inf.npy"), "inf.npy: coordinate 2 of point 1 is -inf");
  check_refused(points("far.npy"), "far.npy: coordinate 0 of point 1 is 1e+39; points lie within the range");
  check_refused(points("two.npy"), "rows of 2 numbers, a point of this network has 3 coordinates");
  check_refused(points("whole.npy"), "holds int64; store float32 or float64");
  check_refused(points("none.npy"), "holds no points");
  check_refused(points("missing.npy"), "missing.npy");
  check_refused(points("nan.npy") + " --signs " + folder.file("s.npy"), "coordinate 1");
  CHECK_FALSE(std::filesystem::exists(folder.file("s.npy.part")));

  check_refused(sphere + " --segment 0,0,0:0,0,0:9", "it is empty");
  check_refused(write_absolute_value(folder) + " --segment 1:0:9", "it is reversed");
  check_refused(sphere + " --segment 0,0:1,1:9", "has 2 coordinates");
  check_refused(sphere + " --segment 0:1", "write A:B:N");
  check_refused(sphere + " --segment 0:nan:9", "finite");
  check_refused(sphere + " --segment 0:1:1", "give between 2");
  check_refused(sphere + " --segment 0:1e39:9", "beyond the range");
  check_refused(sphere + " --grid 4x4", "2 extents, a point has 3 coordinates");
  check_refused(sphere + " --grid 4x0x4", "--grid");
  check_refused(sphere + " --grid 4xx4", "'' is not a number");
  check_refused(sphere + " --grid 4x4x4 --box 1:-1", "1:-1 is no range");
  check_refused(sphere + " --grid 4x4x4 --iso nan", "iso value is not finite");
  for (const std::string iso : {"1p-3", "+0.5", "0,5", "1.5x"})
    check_refused(sphere + " --grid 4x4x4 --iso " + iso, "--iso: '" + iso + "' is not a number; write it as -0.25");
  check_refused(sphere + " --band=-1", "is no width");
  check_refused(sphere + " --band 1e-3 --box 5:6", "no surface found");
  check_refused(sphere + " --grid 4x4x4 --within 0.1", "certify: --within says nothing without --segment; ");
  check_refused(sphere + " --grid 4x4x4 --seed 4", "certify: --seed says nothing without --band; ");
  check_refused(sphere + " --grid 4x4x4 --samples 4", "certify: --samples says nothing without --band; ");
  check_refused(sphere + " --segment 0:1:9 --box 0:1", "certify: --box says nothing without --grid or --band; ");
  check_refused(sphere + " --grid 4x4x4 --box 0:nan", "--box '0:nan': 'nan' is not a finite number");
  check_refused(mlp + " --grid 4x4 --scalar 'logits[0]-logits[0]'", "an element minus itself is 0 everywhere");
  check_refused(sphere + " --segment 0:1:9 --order unknwon", "runs have: sequential, pairwise, blocked:B, split-k:S");
  check_refused(sphere, "by one of --points");
  check_refused(sphere + " --grid 4x4x4 --band 1", "by one of --points");
  check_refused(sphere + " --grid 4x4x4 --resume", "--signs");
  check_refused(sphere + " --grid 4x4x4 --scalar 'sdf[1]'", "no element 1 of output 'sdf'");
  check_refused(sphere + " --grid 4x4x4 --scalar 'x'", "there is no output 'x'");
  check_refused(sphere + " --grid 4x4x4 --signs " + folder.file("no/s.npy"), "there is no folder");
  check_refused(sphere + " --grid 4x4x4 --signs " + sphere, "would replace an input");
  check_refused(mlp + " --grid 4x4", "more than one output element a point; say which one with --scalar");
}

TEST_CASE("values stored more narrowly than they were computed are refused: they were rounded once more") {
  const TemporaryFolder folder;
  folder.write("p.npy", npy_of<double>("<f8", {2, 3}, {0, 0, 0, 1, 1, 1}));
  folder.write("half.npy", npy_of<std::uint16_t>("<f2", {2}, {0x3C00, 0x3C00}));
  folder.write("double.json", R"({"name":"d","input":"fp64","accumulator":"fp64","output":"fp64","functions":"cuda"})");
  folder.write("single.npy", npy_of<float>("<f4", {2}, {1, 1}));
  folder.write("q.npy", npy_of<double>("<f8", {2, 2}, {0, 0, 1, 1}));
  const std::string points = sphere + " --points " + folder.file("p.npy") + " --values ";
  check_refused(points + folder.file("half.npy"), "half.npy: holds float16, but results of the arithmetic are fp32");
  check_refused(points + folder.file("single.npy") + " --arithmetic-file " + folder.file("double.json"),
                "single.npy: holds float32, but results of the arithmetic are fp64");
  check_refused(models + "mlp_2_10_10_2.onnx --scalar 'logits[1]-logits[0]' --points " + folder.file("q.npy") +
                    " --values " + folder.file("single.npy"),
                "single.npy: holds float32, but differences of two outputs are fp64");
  check_refused(points + folder.file("single.npy") + " --arithmetic-file " + folder.path().string(), "it is a folder");
}

TEST_CASE("signs that follow from given values name the arithmetic, who sums narrow operands, and that it is assumed") {
  const TemporaryFolder folder;
  std::vector<double> points, values;
  for (int i = 0; i < 3 * 300; ++i) points.push_back(std::sin(1.7 * i));
  const SignField field(load_model(models + "siren.onnx"));
  std::vector<PointSign> signs(300);
  field.signs(points.data(), 300, 3, 1, signs);
  for (const PointSign& sign : signs) values.push_back(sign.value);
  folder.write("p.npy", npy_of("<f8", {300, 3}, points));
  folder.write("v.npy", npy_of("<f8", {300}, values));
  const auto json = json_of(run_program("certify " + models + "siren.onnx --json - --arithmetic tf32 --points " +
                                        folder.file("p.npy") + " --values " + folder.file("v.npy")));
  CHECK(json["values"]["arithmetic"] == "tf32 (float32 sums, no matrix unit) in order unknown");
  const std::string condition = json["values"]["condition"];
  CHECK(condition.find("as assumed by the command line") != std::string::npos);
  CHECK(condition.find("driftbound CPU evaluator") == std::string::npos);
  CHECK(condition.find(", documented: ") == std::string::npos);
}

TEST_CASE("a run is not resumed with other weights, also where these lie beside the model") {
  const TemporaryFolder folder;
  using namespace driftbound::test;
  const std::string model = folder.file("m.onnx"), signs = folder.file("s.npy");
  const auto write_weights = [&](float sign) {
    folder.write("w.bin", raw_bytes(std::vector<float>{sign * 1.0f, sign * 0.5f, sign * 0.25f}));
  };
  write_weights(1.0f);
  folder.write("m.onnx", OnnxModel(13)
                             .input("x", {"N", 3})
                             .initializer(onnx_external_tensor("w", onnx_float, {3, 1}, {{"location", "w.bin"}}))
                             .node("MatMul", {"x", "w"}, "y")
                             .output("y")
                             .bytes());
  const int extent = stop_within_grid(model + " --iso 10", signs).extent;
  const std::string command = model + " --iso 10 --grid " + std::to_string(extent) + "x64x64 --signs " + signs;
  write_weights(-1.0f);
  check_refused(command + " --resume", "is of a run with other weights; ");
  write_weights(1.0f);
  const ProgramResult resumed =
      run_program("certify " + command + " --resume", "timeout --foreground --preserve-status -s INT 2 ");
  CHECK((resumed.status == 0 || resumed.status == 130));
}
