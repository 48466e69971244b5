#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "driftbound/model/load.hpp"
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
  check_refused("report " + mlp + " --order zigzag", "zigzag");
  check_refused("report " + mlp + " --order blocked:0", "blocked:0");
  check_refused("report " + mlp + " --domain 1", "--domain");
  check_refused("report " + mlp + " --domain 1:inf", "--domain");
  check_refused("report " + mlp + " --arithmetic fp12", "fp12");
  check_refused("report " + mlp + " --samples -3", "--samples");
  check_refused("report " + mlp + " --bounds nonsense", "nonsense");
  check_refused("report " + mlp + " --scalar 'nothing[0]'", "nothing");
  check_refused("report " + mlp + " --scalar 'logits[9]'", "logits[9]");
  check_refused("report " + mlp + " --backend cuda", "CUDA", 4);
  check_refused("report " + mlp + " --backend sim", "sim", 4);
  check_refused("report " + mlp + " --samples 0", "--samples");
  check_refused("report " + mlp + " --threshold nan", "--threshold");
  check_refused("report " + mlp + " --html -", "--json");
  check_refused("foo", "there is no verb 'foo'");
  check_refused("certify " + mlp, "in this version", 4);
  check_refused("", "required");
  check_refused("report", "MODEL");
}

TEST_CASE("a trace of another model is refused by its hash") {
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.safetensors");
  REQUIRE(run_program("capture " + mlp + " --samples 2 --quiet -o " + trace).status == 0);
  check_refused("report " + models + "siren.onnx --trace " + trace, "t.safetensors");
  const std::string whole = read_file(trace);
  for (std::size_t length : {std::size_t{4}, std::size_t{100}, whole.size() - 1}) {
    write_file(folder.file("cut.safetensors"), whole.substr(0, length));
    check_refused("report " + mlp + " --trace " + folder.file("cut.safetensors"), "cut.safetensors");
  }
  check_refused("report " + mlp + " x.npy --trace " + trace, "--trace");
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

TEST_CASE("a report that held nothing against a bound does not say that it holds") {
  const ProgramResult result = run_program("report " + mlp + " --samples 3 --bounds seed-gamma");
  CHECK(result.status == 1);
  CHECK(result.out.rfind("UNDECIDED", 0) == 0);
}
