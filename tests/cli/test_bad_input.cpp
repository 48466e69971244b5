#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/model/load.hpp"
#include "driftbound/model/npy_header.hpp"
#include "model/safetensors.hpp"
#include "support/onnx_writer.hpp"
#include "support/run_program.hpp"

using namespace driftbound;

using driftbound::test::read_file;
using driftbound::test::TemporaryFolder;

namespace {

const std::string models = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/";
const std::string mlp = models + "mlp_2_10_10_2.onnx";

void write_file(const std::string& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

/// Exit status 3 and one line on standard error that names what it is about.
void check_refused(const std::string& arguments, const std::string& named, int status = 3) {
  CAPTURE(arguments);
  const ProgramResult result = run_program(arguments);
  CAPTURE(result.err);
  CHECK(result.status == status);
  CHECK(result.out.empty());
  CHECK(result.err.find(named) != std::string::npos);
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') >= 1);
}

/// The bytes of the bundled MLP with one weight replaced.
std::string with_weight(float value) {
  std::string bytes = read_file(mlp);
  const Graph graph = load_model(mlp);
  for (const Value& constant : graph.values) {
    if (constant.kind != ValueKind::constant || constant.constant.size() < 10) continue;
    const auto raw = constant.constant.bytes();
    const std::string pattern(reinterpret_cast<const char*>(raw.data()), raw.size());
    const std::size_t at = bytes.find(pattern);
    REQUIRE(at != std::string::npos);
    std::memcpy(bytes.data() + at + 4 * sizeof(float), &value, sizeof value);
    return bytes;
  }
  FAIL("no weight found");
  return bytes;
}

/// What a tensor of a trace becomes; nothing where it is to be left out.
using Change = std::function<std::optional<StoredTensor>(const std::string&, const StoredTensor&)>;
using Metadata = std::map<std::string, std::string>;

void rewrite_trace(const std::string& from, const std::string& to, const Change& change, const Metadata& metadata) {
  const SafetensorsFile file(from);
  std::vector<std::pair<std::string, StoredTensor>> tensors;
  for (const std::string& name : file.names())
    if (const auto changed = change(name, file.tensor(name))) tensors.emplace_back(name, *changed);
  std::vector<std::pair<std::string, const StoredTensor*>> pointers;
  for (const auto& [name, tensor] : tensors) pointers.emplace_back(name, &tensor);
  Metadata all = file.metadata();
  for (const auto& [key, value] : metadata) all[key] = value;
  write_safetensors(to, pointers, all);
}

std::string first_layer(const std::string& trace) {
  const SafetensorsFile file(trace);
  for (const std::string& name : file.names())
    if (name.rfind("layer/0/", 0) == 0) return name;
  FAIL("no layer found");
  return "";
}

}  // namespace

TEST_CASE("missing, unreadable and foreign files are refused by name") {
  const TemporaryFolder folder;
  check_refused("report " + folder.file("no.onnx"), "no.onnx");
  check_refused("inspect " + folder.file("no.onnx"), "no.onnx");
  check_refused("report " + folder.path().string(), folder.path().string());
  write_file(folder.file("text.onnx"), "this is not a model");
  check_refused("report " + folder.file("text.onnx"), "text.onnx");
  write_file(folder.file("empty.onnx"), "");
  check_refused("report " + folder.file("empty.onnx"), "empty.onnx");
  write_file(folder.file("empty.npz"), "");
  check_refused("report " + folder.file("empty.npz"), "empty.npz");
}

TEST_CASE("a model truncated anywhere is refused, never a crash") {
  const TemporaryFolder folder;
  const std::string whole = read_file(mlp), file = folder.file("cut.onnx");
  for (std::size_t length = 1; length < whole.size(); length += whole.size() / 12) {
    write_file(file, whole.substr(0, length));
    check_refused("report " + file + " --samples 2", "cut.onnx");
  }
}

TEST_CASE("weights that are not finite are refused, naming file, weight and node") {
  const TemporaryFolder folder;
  const std::string file = folder.file("nan.onnx");
  for (float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    write_file(file, with_weight(value));
    check_refused("report " + file, "nan.onnx");
    check_refused("report " + file, "node '");
    check_refused("capture " + file + " -o " + folder.file("t.safetensors"), "not finite");
    const ProgramResult inspected = run_program("inspect " + file);
    CHECK(inspected.status == 3);
    CHECK(inspected.out.find("No run of it can be judged: weight '") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder.file("t.safetensors")));
  }
}

TEST_CASE("inputs of the wrong shape or with NaN are refused") {
  const TemporaryFolder folder;
  write_file(folder.file("three.csv"), "1,2,3\n");
  check_refused("report " + mlp + " " + folder.file("three.csv"), "three.csv");
  write_file(folder.file("nan.csv"), "1,2\nnan,1\n");
  check_refused("report " + mlp + " " + folder.file("nan.csv"), "nan.csv");
  write_file(folder.file("words.csv"), "1,2\nhello,1\n");
  check_refused("report " + mlp + " " + folder.file("words.csv"), "words.csv");
  check_refused("report " + mlp + " " + folder.file("missing.npy"), "missing.npy");
  write_file(folder.file("bad.npy"), "\x93NUMPY\x01");
  check_refused("report " + mlp + " " + folder.file("bad.npy"), "bad.npy");
}

TEST_CASE("outputs that cannot be written are refused before any work is done") {
  const TemporaryFolder folder;
  check_refused("report " + mlp + " --json " + folder.file("no/such/folder/r.json"), "no/such/folder");
  check_refused("report " + mlp + " --json " + folder.path().string(), "folder");
  check_refused("capture " + mlp + " -o " + folder.file("no/t.safetensors"), "t.safetensors");
}

TEST_CASE("bad options are refused with status 3, missing devices with status 4") {
  const TemporaryFolder folder;
  check_refused("report " + mlp + " --order zigzag",
                "runs have: sequential, pairwise, blocked:B, split-k:S, and on the CPU slices:R, balanced:R:M");
  check_refused("report " + mlp + " --order blocked:0", "blocked:0");
  check_refused("report " + mlp + " --domain 1", "--domain");
  check_refused("report " + mlp + " --domain 1:inf", "--domain '1:inf': 'inf' is not a finite number");
  check_refused("report " + mlp + " --box 0:nan", "--box '0:nan': 'nan' is not a finite number");
  check_refused("report " + mlp + " --arithmetic fp12", "fp12");
  check_refused("report " + mlp + " --samples -3", "--samples");
  check_refused("report " + mlp + " --bounds nonsense", "nonsense");
  check_refused("report " + mlp + " --scalar 'nothing[0]'", "nothing");
  check_refused("report " + mlp + " --scalar 'logits[9]'", "logits[9]");
  check_refused("report " + mlp + " --scalar 'logits[1] - logits[1]'", "an element minus itself is 0 everywhere");
  check_refused("report " + mlp + " --backend sim", "--device: v100", 3);
  check_refused("report " + mlp + " --device h100", "--backend sim", 3);
  check_refused("report " + mlp + " --backend sim --device k80", "k80", 3);
  check_refused("report " + mlp + " --backend sim --device a100 --arithmetic fp8_e4m3", "no matrix unit", 4);
  check_refused("report " + mlp + " --backend sim --device a100 --arithmetic tf32 --order pairwise", "pairwise", 3);
  check_refused("report " + mlp + " --backend sim --device a100 --gemm cublas", "cuBLAS", 3);
  check_refused("report " + mlp + " --explain-kernels --no-explain-kernels", "excludes", 3);
  check_refused("report " + mlp + " --samples 0", "--samples");
  check_refused("report " + mlp + " --threshold nan", "--threshold");
  check_refused("report " + mlp + " --html -", "--json");
  check_refused("foo", "there is no verb 'foo'");
  check_refused("prove " + mlp, "there is no verb 'prove'");
  check_refused("probe " + mlp, "not expected");
  check_refused("tolerance gem --k 4", "there is no op 'gem'");
  check_refused("tolerance gemm --k 4 --in fp12", "choose among fp64");
  check_refused("tolerance gemm --k 4 --order pairwise --split-k 2", "leave one of them out");
  check_refused("tolerance gemm --k 4 --split-k 5", "no more parts than terms");
  const std::string x = folder.file("x.npy");
  write_file(x, npy_header("<f8", {1, 2}) + std::string(16, '\0'));
  for (const std::string option : {"--k 4", "--magnitude 2", "--seed 7"})
    check_refused("tolerance gelu " + option + " --data " + x,
                  option.substr(0, option.find(' ')) + " is for operands that are made");
  check_refused("tolerance gemm --k -1", "--k is -1: give a number from 1");
  check_refused("tolerance gemm --k 4 --magnitude nan", "--magnitude: give a number above 0");
  check_refused("tolerance gemm --k 4 --failure-probability 1", "--failure-probability");
  check_refused("tolerance rmsnorm --k 4 --epsilon nan", "--epsilon: give a finite number above 0");
  check_refused("tolerance gemm --k 4 --scale 2", "gemm has no scale of scores");
  check_refused("drift " + mlp, "give two recorded runs");
  check_refused("drift " + mlp + " --orders sequential pairwise --audit 5", "recorded op by op");
  check_refused("drift " + mlp + " --orders sequential pairwise --tolerances jax x.json", "choose among torch");
  check_refused("drift " + mlp + " " + mlp, "a model and two traces of it");
  check_refused("", "required");
  check_refused("report", "MODEL");
}

TEST_CASE("a trace of another model is refused by its hash") {
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.safetensors");
  REQUIRE(run_program("capture " + mlp + " --samples 2 --quiet -o " + trace).status == 0);
  check_refused("report " + models + "siren.onnx --trace " + trace, "t.safetensors: the trace is of another model");
  const std::string whole = read_file(trace);
  for (std::size_t length : {std::size_t{4}, std::size_t{100}, whole.size() - 1}) {
    write_file(folder.file("cut.safetensors"), whole.substr(0, length));
    check_refused("report " + mlp + " --trace " + folder.file("cut.safetensors"), "cut.safetensors");
  }
}

TEST_CASE("an option that says of a run what its trace says already is refused, with both names and what to do") {
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.safetensors");
  REQUIRE(run_program("capture " + mlp + " --samples 2 --quiet -o " + trace).status == 0);
  const std::string judge = "report " + mlp + " --trace " + trace;
  for (const std::string& option :
       std::vector<std::string>{"--arithmetic bf16", "--order pairwise", "--gemm ordered", "--backend cpu", "--batch 2",
                                "--samples 2", "--seed 1", "--domain 0:1", "--inputs uniform", "--rows 1"})
    check_refused(judge + " " + option,
                  "report: " + option.substr(0, option.find(' ')) + " and --trace exclude each other; a trace ");
  check_refused("report " + mlp + " x.npy --trace " + trace,
                "INPUTS and --trace exclude each other; a trace carries its inputs; leave one of the two out");
  CHECK(run_program(judge +
                    " --threads 2 --max-precision 256 --bounds adjoint/any-order --scalar 'logits[0]' --box 0:0.001 "
                    "--functions cuda --quiet --json " +
                    folder.file("r.json"))
            .status == 0);
}

TEST_CASE("how to generate samples is refused beside a file of samples") {
  const TemporaryFolder folder;
  write_file(folder.file("x.csv"), "1,2\n");
  for (const std::string& verb : {std::string("report "), "capture -o " + folder.file("t.safetensors") + " "})
    for (const std::string& option :
         std::vector<std::string>{"--domain 0:1", "--samples 5", "--seed 1", "--inputs normal"})
      check_refused(verb + mlp + " " + folder.file("x.csv") + " " + option,
                    option.substr(0, option.find(' ')) +
                        " and INPUTS exclude each other; the samples are those of the "
                        "file");
  CHECK(run_program("report " + mlp + " " + folder.file("x.csv") + " --batch 1 --order pairwise --quiet").status == 0);
}

TEST_CASE("a trace that does not fit its model is refused, naming file and layer, and no report is written") {
  const TemporaryFolder folder;
  const std::string good = folder.file("good.safetensors"), bad = folder.file("bad.safetensors");
  const std::string json = folder.file("report.json");
  REQUIRE(run_program("capture " + mlp + " --samples 2 --quiet -o " + good).status == 0);
  const std::string layer = first_layer(good);
  const auto refused = [&](const Change& change, const std::string& named, const Metadata& metadata = {}) {
    rewrite_trace(good, bad, change, metadata);
    check_refused("report " + mlp + " --trace " + bad + " --json " + json, "bad.safetensors: " + named);
    CHECK_FALSE(std::filesystem::exists(json));
  };
  const auto layer_becomes = [&](const std::optional<StoredTensor>& replacement) {
    return [&layer, replacement](const std::string& name, const StoredTensor& tensor) {
      return name == layer ? replacement : std::optional<StoredTensor>(tensor);
    };
  };
  const Change nothing = [](const std::string&, const StoredTensor& tensor) { return tensor; };

  SUBCASE("the layers themselves") {
    const Change without_layers = [](const std::string& name, const StoredTensor& tensor) {
      return name.rfind("layer/", 0) == 0 ? std::nullopt : std::optional<StoredTensor>(tensor);
    };
    refused(without_layers, "the trace lacks layers of the model:\n  " + layer);
    refused(layer_becomes(StoredTensor::from(Tensor<float>({2, 9}))), "layer 'hidden1/Gemm': expected shape [2, 10]");
    refused(layer_becomes(StoredTensor::from(Tensor<float>({3, 10}))), "layer 'hidden1/Gemm': expected shape [2, 10]");
    refused(layer_becomes(StoredTensor::from(Tensor<std::int64_t>({2, 10}))), "layer 'hidden1/Gemm': expected a float");
    refused(layer_becomes(StoredTensor(ElementType::bf16, {2, 10}, std::vector<std::byte>(40))),
            "layer 'hidden1/Gemm' is stored as bfloat16, but its arithmetic's results are fp32");
  }
  SUBCASE("the inputs") {
    const auto inputs_become = [](const std::optional<StoredTensor>& replacement) {
      return [replacement](const std::string& name, const StoredTensor& tensor) {
        return name.rfind("input/", 0) == 0 ? replacement : std::optional<StoredTensor>(tensor);
      };
    };
    refused(inputs_become(std::nullopt), "the trace lacks the model's input");
    refused(inputs_become(StoredTensor::from(Tensor<float>({2, 3}))), "input");
    refused(inputs_become(StoredTensor::from(Tensor<float>({3, 2}))), "layer 'hidden1/Gemm': expected shape [3, 10]");
    const float nan = std::numeric_limits<float>::quiet_NaN();
    refused(inputs_become(StoredTensor::from(Tensor<float>({2, 2}, {1, nan, 1, 1}))), "input");
  }
  SUBCASE("what the trace says of itself") {
    refused(nothing, "the trace is of another model", {{"model_sha256", std::string(64, '0')}});
    refused(nothing, "a trace of format version '7'", {{"driftbound.trace", "7"}});
    refused(nothing, "", {{"arithmetic", R"({"input":"fp12"})"}});
    refused(nothing, "", {{"arithmetic", R"({"output":"fp64","accumulator":"fp64"})"}});
    refused(nothing, "", {{"provenance", "no JSON"}});
  }
}

TEST_CASE("overflow on the way voids the layer and is never reported as holding") {
  const TemporaryFolder folder;
  write_file(folder.file("huge.onnx"), with_weight(3e38F));
  const ProgramResult result = run_program("report " + folder.file("huge.onnx") + " --samples 20 --domain -1e30:1e30");
  CHECK(result.status == 1);
  CHECK(result.out.rfind("VOID", 0) == 0);
}

TEST_CASE("an output never replaces an input or another output") {
  const TemporaryFolder folder;
  const std::string copy = folder.file("m.onnx");
  write_file(copy, read_file(mlp));
  check_refused("report " + copy + " --save-trace " + copy, "would replace");
  check_refused("capture " + copy + " -o " + folder.file("./m.onnx"), "would replace");
  check_refused("report " + copy + " --json " + folder.file("r") + " --csv " + folder.file("r"), "would replace");
  CHECK(read_file(copy) == read_file(mlp));
}

TEST_CASE("two names of one file that does not exist yet are one output") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("sub"));
  const std::string report = "report " + std::filesystem::absolute(mlp).string() + " --samples 2 --json r --csv ";
  for (const std::string& other : {std::string("./r"), std::string("sub/../r"), folder.file("r")}) {
    CAPTURE(other);
    const ProgramResult result = run_program(report + other, "cd " + folder.file(".") + " && ");
    CHECK(result.status == 3);
    CHECK(result.err.find("would replace") != std::string::npos);
  }
}

TEST_CASE("a name that no file can have is refused as what it is") {
  check_refused("report " + std::string(5000, 'x'), "xxx: File name too long");
}

TEST_CASE("a seed is a number that a generator can have") {
  for (const char* seed : {"-1", "18446744073709551616", "1e3", "x"})
    check_refused("report " + mlp + " --samples 2 --seed " + seed, "is not an integer from 0 to 18446744073709551615");
  CHECK(run_program("report " + mlp + " --samples 2 --seed 18446744073709551615").status == 0);
}

TEST_CASE("a number of samples is written in digits") {
  for (const char* count : {"1e3", "0", "-3", "2.0", "1099511627777", "x"})
    check_refused("report " + mlp + " --samples " + count, "is not an integer from 1 to 1099511627776");
  check_refused("report " + mlp + " --batch 1e3", "'1e3' is not an integer");
  check_refused("certify " + models + "siren.onnx --band 1e-2 --samples 1e3", "'1e3' is not an integer");
}

TEST_CASE("a trace does not go to standard output, and no file of that name is written") {
  check_refused("capture " + mlp + " --samples 2 -o -", "a trace cannot be written to standard output ('-')");
  CHECK_FALSE(std::filesystem::exists("-"));
}

TEST_CASE("an output that replaces a file keeps who may read it") {
  using std::filesystem::perms;
  constexpr perms ours = perms::owner_read | perms::owner_write;
  const TemporaryFolder folder;
  for (const char* name : {"r.json", "t.safetensors", "s.npy"}) {
    write_file(folder.file(name), "old");
    std::filesystem::permissions(folder.file(name), ours);
  }
  REQUIRE(run_program("report " + mlp + " --samples 2 --quiet --json " + folder.file("r.json") + " --save-trace " +
                      folder.file("t.safetensors"))
              .status == 0);
  REQUIRE(run_program("certify " + models + "siren.onnx --grid 2x2x2 --quiet --signs " + folder.file("s.npy")).status ==
          0);
  for (const char* name : {"r.json", "t.safetensors", "s.npy"}) {
    CAPTURE(name);
    CHECK(read_file(folder.file(name)) != "old");
    CHECK(std::filesystem::status(folder.file(name)).permissions() == ours);
  }
}

TEST_CASE("inputs beyond their type in the model are refused, and not blamed on a layer") {
  const TemporaryFolder folder;
  write_file(folder.file("x.csv"), "1,2\n1e300,0\n");
  check_refused("report " + mlp + " " + folder.file("x.csv"),
                "is 1e+300 at element 2 of shape [2, 2], beyond the largest");
}

TEST_CASE("a full device is an error, not a report") {
  CHECK(run_program("report " + mlp + " --samples 2 --json /dev/full").status == 3);
}

TEST_CASE("rows of an open axis 0 that a node mixes are no samples: the model is refused, naming the node") {
  const TemporaryFolder folder;
  using namespace driftbound::test;
  write_file(folder.file("attention.onnx"), OnnxModel(13)
                                                .input("x", {"seq", 4})
                                                .node("Transpose", {"x"}, "t")
                                                .node("MatMul", {"x", "t"}, "scores")
                                                .node("Softmax", {"scores"}, "p")
                                                .node("MatMul", {"p", "x"}, "y")
                                                .output("y")
                                                .bytes());
  check_refused("report " + folder.file("attention.onnx"), "mixes its rows");
}

TEST_CASE(
    "rows of an open axis 0 that pass through another axis, as in an exported attention, are samples one by one") {
  const TemporaryFolder folder;
  using namespace driftbound::test;
  const auto turn = [](std::vector<std::int64_t> axes) {
    return std::vector<OnnxAttribute>{OnnxAttribute::of_ints("perm", std::move(axes))};
  };
  write_file(folder.file("attention.onnx"), OnnxModel(13)
                                                .input("x", {"batch", 3, 2})
                                                .node("Transpose", {"x"}, "q", turn({1, 0, 2}))
                                                .node("Transpose", {"x"}, "k", turn({0, 2, 1}))
                                                .node("MatMul", {"x", "k"}, "scores")
                                                .node("Transpose", {"scores"}, "turned", turn({1, 0, 2}))
                                                .node("Softmax", {"turned"}, "p")
                                                .node("Transpose", {"p"}, "weights", turn({1, 0, 2}))
                                                .node("MatMul", {"weights", "x"}, "y")
                                                .node("Relu", {"q"}, "z")
                                                .output("y")
                                                .output("z")
                                                .bytes());
  const ProgramResult result = run_program("report " + folder.file("attention.onnx") + " --samples 3 --quiet");
  CHECK(result.status == 0);
}

TEST_CASE("a report that held nothing against a bound does not say that it holds") {
  const ProgramResult result = run_program("report " + mlp + " --samples 3 --bounds seed-gamma");
  CHECK(result.status == 1);
  CHECK(result.out.rfind("UNDECIDED", 0) == 0);
}

TEST_CASE("an option or argument given as empty text is refused by name, never taken for left out") {
  const TemporaryFolder folder;
  const std::string siren = models + "siren.onnx --grid 2x2x2";
  const std::vector<std::string> of_report = {"--trace",      "--functions", "--scalar", "--bounds", "--box",
                                              "--json",       "--html",      "--csv",    "--junit",  "--save-reference",
                                              "--save-trace", "--order",     "--rows",   "--domain"};
  for (const std::string& option : of_report)
    check_refused("report " + mlp + " --samples 2 " + option + " ''", "report: " + option + " is given as empty text");
  for (const std::string option : {"--values", "--arithmetic-file", "--signs", "--points", "--json", "--scalar",
                                   "--iso", "--order", "--box", "--segment"})
    check_refused("certify " + siren + " " + option + " ''", "certify: " + option + " is given as empty text");
  check_refused("report " + mlp + " ''", "report: INPUTS is given as empty text");
  check_refused("capture " + mlp + " -o ''", "capture: --output is given as empty text");
  check_refused("capture " + mlp + " --rows '' -o " + folder.file("t.safetensors"), "--rows is given as empty text");
  check_refused("inspect ''", "inspect: FILE is given as empty text");
  CHECK_FALSE(std::filesystem::exists(folder.file("t.safetensors")));
}

TEST_CASE("no output replaces a file that holds the model's weights") {
  const TemporaryFolder folder;
  using namespace driftbound::test;
  const std::string model = folder.file("m.onnx"), file = folder.file("w.npy.part");
  const std::vector<float> numbers = {1.0F, 0.5F};
  const std::string weights(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
  write_file(file, weights);
  write_file(model, OnnxModel(13)
                        .input("x", {"N", 2})
                        .initializer(onnx_external_tensor("w", onnx_float, {2, 1}, {{"location", "w.npy.part"}}))
                        .node("MatMul", {"x", "w"}, "y")
                        .output("y")
                        .bytes());
  REQUIRE(run_program("report " + model + " --samples 2 --quiet").status == 0);
  for (const std::string option : {"--json", "--html", "--csv", "--junit", "--save-trace", "--save-reference"})
    check_refused("report " + model + " --samples 2 " + option + " " + file, "would replace an input");
  check_refused("capture " + model + " -o " + file, "would replace an input");
  check_refused("certify " + model + " --grid 3x3 --json " + file, "would replace an input");
  check_refused("certify " + model + " --grid 3x3 --signs " + folder.file("w.npy"), "would replace an input");
  CHECK((read_file(file) == weights));
}

TEST_CASE("a symbolic link that is written to stays, and its file gets what is written") {
  const TemporaryFolder folder;
  write_file(folder.file("report.json"), "old");
  for (const char* name : {"report.json", "new.json", "t.safetensors", "s.npy"})
    std::filesystem::create_symlink(name, folder.path() / ("to-" + std::string(name)));
  const auto link = [&](const std::string& name) { return folder.file("to-" + name); };
  REQUIRE(run_program("report " + mlp + " --samples 2 --quiet --json " + link("report.json") + " --save-trace " +
                      link("t.safetensors"))
              .status == 0);
  REQUIRE(run_program("certify " + models + "siren.onnx --grid 2x2x2 --quiet --json " + link("new.json") + " --signs " +
                      link("s.npy"))
              .status == 0);
  for (const std::string name : {"report.json", "new.json", "t.safetensors", "s.npy"}) {
    CAPTURE(name);
    CHECK(std::filesystem::is_symlink(link(name)));
    CHECK(std::filesystem::is_regular_file(folder.path() / name));
    CHECK(read_file(folder.file(name)) != "old");
  }
  check_refused("report " + mlp + " --samples 2 --json " + link("report.json") + " --csv " + folder.file("report.json"),
                "would replace");
}
