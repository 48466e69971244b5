#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "support/environment.hpp"
#include "support/json_schema.hpp"
#include "support/report_schema.hpp"
#include "support/run_program.hpp"

using driftbound::test::read_file;
using driftbound::test::ScopedVariable;
using driftbound::test::TemporaryFolder;

namespace {

const std::string models = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/";
const std::string mlp = models + "mlp_2_10_10_2.onnx";

/// Lets the program find the host double of the CUDA module.
ScopedVariable with_host_module() {
  return ScopedVariable("DRIFTBOUND_PLUGIN_PATH", DRIFTBOUND_HOST_MODULE_FOLDER);
}

nlohmann::json report_of(const std::string& arguments) {
  const ProgramResult result = run_program("report " + arguments + " --json -");
  CAPTURE(arguments);
  CAPTURE(result.err);
  REQUIRE(result.status <= 1);
  return nlohmann::json::parse(result.out);
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0, columns = 0;
  for (const char c : text) {
    if (c == '\n')
      columns = 0;
    else if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U)
      longest = std::max(longest, ++columns);
  }
  return longest;
}

/// The exit status and a sentence that names what it is about, and no output file.
void check_refused(const std::string& options, int status, const std::string& named) {
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.safetensors"), json = folder.file("r.json");
  for (const std::string& command :
       {"capture " + mlp + " --samples 6 -o " + trace + " " + options,
        "report " + mlp + " --samples 6 --quiet --save-trace " + trace + " --json " + json + " " + options}) {
    CAPTURE(command);
    const ProgramResult result = run_program(command);
    CAPTURE(result.err);
    CHECK(result.status == status);
    CHECK(result.err.find(named) != std::string::npos);
    CHECK(result.out.empty());
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}

}  // namespace

TEST_CASE("without a module --backend cuda says where it looked, and auto takes the CPU") {
  const TemporaryFolder place, empty;
  const std::string program = place.file("driftbound");  // beside which there is no module, whatever was built
  std::filesystem::copy_file(DRIFTBOUND_PROGRAM, program);
  const ScopedVariable path("DRIFTBOUND_PLUGIN_PATH", empty.path().string());
  const std::string trace = empty.file("t.safetensors");
  for (const std::string& options : {std::string("--backend cuda"), std::string("--gemm cublas")}) {
    const ProgramResult result = run_program("capture " + mlp + " -o " + trace + " " + options, "", program);
    CAPTURE(result.err);
    CHECK(result.status == 4);
    CHECK(result.err.find("there is no CUDA module") != std::string::npos);
    CHECK(result.err.find(empty.path().string()) != std::string::npos);
    CHECK(result.err.find(place.file("driftbound-modules")) != std::string::npos);
    CHECK(std::filesystem::is_empty(empty.path()));
  }
  CHECK(run_program("capture " + mlp + " -o " + trace, "", program).status == 0);
  CHECK(report_of(mlp + " --trace " + trace)["run"]["backend"] == "cpu");
}

TEST_CASE("modules that cannot be used are exit status 4 and leave no file") {
  const TemporaryFolder folder;
  folder.write("libdriftbound_cuda.so", "no library");
  const std::string broken = DRIFTBOUND_BROKEN_MODULES;
  for (const auto& [place, named] :
       std::vector<std::pair<std::string, std::string>>{{folder.path().string(), "cannot be loaded"},
                                                        {broken + "/no_entry", "driftbound_device_entry"},
                                                        {broken + "/other_version", "another interface"}}) {
    const ScopedVariable path("DRIFTBOUND_PLUGIN_PATH", place);
    check_refused("--backend cuda", 4, named);
  }
  const ScopedVariable path = with_host_module();
  const ScopedVariable fault("DRIFTBOUND_HOST_MODULE_UNAVAILABLE", "the driver is older than CUDA 12.0 needs");
  check_refused("--backend cuda", 4, "the driver is older than CUDA 12.0 needs");
  CHECK(report_of(mlp + " --samples 2")["run"]["backend"] == "cpu");
}

TEST_CASE("a device that runs out of memory or is lost is exit status 4, names the layer and leaves no file") {
  const ScopedVariable path = with_host_module();
  for (const char* bytes : {"16", "300", "900"}) {
    const ScopedVariable fault("DRIFTBOUND_HOST_MODULE_MEMORY", bytes);
    check_refused("--backend cuda", 4, "use a smaller --batch");
    check_refused("--backend cuda", 4, "layer '");
  }
  for (const char* calls : {"0", "3", "20", "40"}) {
    const ScopedVariable fault("DRIFTBOUND_HOST_MODULE_LOST_AFTER", calls);
    check_refused("--backend cuda --batch 2", 4, "was lost at layer '");
  }
}

TEST_CASE("a report names backend, device and product, and satisfies the schema") {
  const ScopedVariable path = with_host_module();
  for (const char* arithmetic : {"fp64", "fp32", "tf32", "bf16", "fp16"}) {
    CAPTURE(arithmetic);
    const auto report = report_of(mlp + " --samples 10 --batch 4 --backend cuda --arithmetic " + arithmetic);
    CHECK(schema_errors(schema_file, report) == "");
    CHECK(report["run"]["backend"] == "cuda");
    CHECK(report["run"]["device"] == "host double");
    CHECK(report["run"]["gemm"] == "cublas");
    CHECK(report["run"]["order"] == "unknown");
    CHECK(report["run"]["batch"] == 4);
    CHECK(report["run"]["observer_effect"] == "none");
    CHECK((report["verdict"] == "holds" || report["verdict"] == "approaches"));
  }
  const auto ordered = report_of(mlp + " --samples 4 --backend cuda --order pairwise");
  CHECK(ordered["run"]["gemm"] == "ordered");
  CHECK(ordered["run"]["order"] == "pairwise");
  CHECK(report_of(mlp + " --samples 4 --backend cuda --gemm cublas-pedantic")["run"]["gemm"] == "cublas-pedantic");
  const ProgramResult text = run_program("report " + mlp + " --samples 4 --backend cuda");
  CHECK(text.out.find("cuda (host double, gemm cublas)") != std::string::npos);
  CHECK(longest_line(text.out) <= 100);
  CHECK(text.out.find("outputs with and without capture: identical") != std::string::npos);
}

TEST_CASE("a run that recording disturbs is told in text, HTML and JSON, also from its trace") {
  const ScopedVariable path = with_host_module();
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.safetensors"), html = folder.file("r.html");
  {
    const ScopedVariable fault("DRIFTBOUND_HOST_MODULE_DISTURB", "1");
    REQUIRE(run_program("capture " + mlp + " --samples 6 --batch 3 --backend cuda -o " + trace).status == 0);
  }
  const ProgramResult text = run_program("report " + mlp + " --trace " + trace + " --html " + html);
  CHECK(text.out.find("outputs with and without capture: CHANGED") != std::string::npos);
  CHECK(read_file(html).find("outputs with and without capture: CHANGED") != std::string::npos);
  const auto report = nlohmann::json::parse(run_program("report " + mlp + " --json - --trace " + trace).out);
  CHECK(report["run"]["observer_effect"] == "changed");
  CHECK(report["run"]["batch"] == 3);
  CHECK(report["run"]["gemm"] == "cublas");
}

TEST_CASE("auto takes a GPU where there is one, in every arithmetic") {
  const ScopedVariable path = with_host_module();
  CHECK(report_of(mlp + " --samples 2")["run"]["backend"] == "cuda");
  CHECK(report_of(mlp + " --samples 2 --order pairwise")["run"]["gemm"] == "ordered");
  CHECK(report_of(mlp + " --samples 2 --arithmetic tf32")["run"]["backend"] == "cuda");
  CHECK(report_of(mlp + " --samples 2 --arithmetic tf32 --gemm cublas")["run"]["backend"] == "cuda");
  const auto cpu = report_of(mlp + " --samples 2 --backend cpu");
  CHECK(cpu["run"]["backend"] == "cpu");
  CHECK(cpu["run"]["gemm"] == "ordered");
  CHECK(cpu["run"]["observer_effect"] == "not checked");
}

TEST_CASE("options that contradict each other are exit status 3") {
  const ScopedVariable path = with_host_module();
  check_refused("--backend cpu --gemm cublas", 3, "--backend cpu");
  check_refused("--backend cpu --gemm cublas-pedantic", 3, "--backend cpu");
  check_refused("--backend cuda --gemm cublas --order pairwise", 3, "--order");
  check_refused("--backend cuda --gemm cublas-pedantic --arithmetic bf16", 3, "pedantic");
  check_refused("--backend cuda --order unknown", 3, "order");
  const ScopedVariable variable("DRIFTBOUND_HOST_MODULE_ENVIRONMENT", "NVIDIA_TF32_OVERRIDE=0");
  check_refused("--backend cuda", 3, "NVIDIA_TF32_OVERRIDE=0");
}

TEST_CASE("a variable that changes cuBLAS makes auto take the CPU, unless the product is said") {
  const ScopedVariable path = with_host_module();
  const ScopedVariable variable("DRIFTBOUND_HOST_MODULE_ENVIRONMENT", "NVIDIA_TF32_OVERRIDE=0");
  CHECK(report_of(mlp + " --samples 2")["run"]["backend"] == "cpu");
  CHECK(report_of(mlp + " --samples 2 --arithmetic tf32")["run"]["backend"] == "cpu");
  check_refused("--gemm cublas", 3, "NVIDIA_TF32_OVERRIDE=0");
  CHECK(report_of(mlp + " --samples 2 --gemm ordered")["run"]["backend"] == "cuda");
  CHECK(report_of(mlp + " --samples 2 --order pairwise")["run"]["backend"] == "cuda");
  check_refused("--order unknown", 3, "order");
}

TEST_CASE("--rows records those samples alone, on the CPU and on a device") {
  const ScopedVariable path = with_host_module();
  for (const char* backend : {"cpu", "cuda --gemm ordered"}) {
    CAPTURE(backend);
    const std::string base = mlp + " --samples 40 --batch 16 --backend " + backend;
    const auto all = report_of(base), some = report_of(base + " --rows 3,7:9,10:40:5");
    CHECK(all["inputs"]["samples"] == 40);
    CHECK(some["inputs"]["samples"] == 9);
    CHECK(some["run"]["batch"] == 16);
    const auto one = report_of(base + " --rows 39");
    CHECK(one["inputs"]["samples"] == 1);
  }
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.safetensors");
  REQUIRE(run_program("capture " + mlp + " --samples 10000 --rows 0:10000:157 -o " + trace).status == 0);
  CHECK(report_of(mlp + " --trace " + trace)["inputs"]["samples"] == 64);
  CHECK(run_program("report " + mlp + " --rows 1 --trace " + trace).status == 3);
}

TEST_CASE("rows out of range, not ascending or malformed are exit status 3") {
  for (const char* rows : {"6", "0:7", "5:3", "3,2", "3,3", "0:6:0", "a", "1:", ":2", "-1", "1:2:3:4", "1,,2", ",",
                           "0:99999999999999999999", "9223372036854775807", "1:5:-1"}) {
    check_refused("--backend cpu --rows " + std::string(rows), 3, "--rows");
  }
}

TEST_CASE("probe finds the order of every algorithm of cuBLASLt, and says which it is") {
  const ScopedVariable path = with_host_module();
  const TemporaryFolder folder;
  const std::string probe = "probe --backend cuda --gemm cublaslt --shape 8,40,3 ";
  const ProgramResult all = run_program(probe + "--algorithm all --json - --csv " + folder.file("a.csv"));
  CAPTURE(all.err);
  REQUIRE(all.status == 0);
  const auto json = nlohmann::json::parse(all.out);
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/probe-1.json", json) == "");
  REQUIRE(json["shapes"].size() == 3);
  const char* const orders[] = {"sequential+fma", "blocked:20+fma", "blocked:10+fma"};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(json["shapes"][i]["findings"]["order"] == orders[i]);
    CHECK(json["shapes"][i]["unexplained"].is_null());
  }
  CHECK(json["shapes"][1]["algorithm"] ==
        "algorithm 1 of 3: id 22, tile 64x64, stages 32x3, K in 2 parts added in the type of the sums");
  CHECK(read_file(folder.file("a.csv")).find("\"algorithm 2 of 3: id 24") != std::string::npos);
  const ProgramResult one = run_program("probe --backend cuda --gemm cublaslt --shape 8,64,3 --arithmetic tf32 " +
                                        ("--algorithm 1 --export " + folder.file("a.json")));
  CHECK(one.status == 0);
  CHECK(one.out.find("algorithm 1 of 3: id 22") != std::string::npos);
  CHECK(nlohmann::json::parse(read_file(folder.file("a.json")))["order"] == "blocked:32");
  const ProgramResult by_default = run_program(probe + "--quiet");
  CHECK(by_default.err.find("FOUND, 40 terms added from left to right") != std::string::npos);
}

TEST_CASE("a run by an algorithm is recorded as one, and its kernels are found in its bits") {
  const ScopedVariable path = with_host_module();
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.safetensors");
  const ProgramResult captured = run_program("capture " + models +
                                             "siren.onnx --samples 40 --backend cuda --arithmetic tf32 --gemm cublaslt "
                                             "--algorithm 0 -o " +
                                             trace);
  CAPTURE(captured.err);
  REQUIRE(captured.status == 0);
  const ProgramResult report =
      run_program("report " + models + "siren.onnx --trace " + trace + " --explain-kernels --json -");
  REQUIRE(report.status <= 1);
  CHECK(nlohmann::json::parse(report.out)["run"]["gemm"] == "cublaslt");
  const ProgramResult text = run_program("report " + models + "siren.onnx --trace " + trace);
  CHECK(text.out.find("gemm cublaslt, algorithm 0)") != std::string::npos);
  check_refused("--backend cuda --gemm cublaslt --algorithm 3", 3, "there is no algorithm 3: cuBLASLt offers");
}

TEST_CASE("what --algorithm cannot mean is refused") {
  const ScopedVariable path = with_host_module();
  check_refused("--backend cuda --algorithm 1", 3, "add --gemm cublaslt");
  check_refused("--backend cuda --gemm cublaslt --algorithm all", 3, "a run has one algorithm");
  check_refused("--backend cuda --gemm cublaslt --algorithm -1", 3, "give a number from 0 on");
  check_refused("--backend cuda --gemm cublaslt --algorithm 1x", 3, "give a number from 0 on");
  check_refused("--backend cpu --gemm cublaslt", 3, "cuBLAS runs on a GPU");
  check_refused("--backend cuda --gemm cublaslt --order pairwise", 3, "chooses its order of summation itself");
  const auto refused = [&](const std::string& options, const std::string& named) {
    const ProgramResult result = run_program("probe --backend cuda --gemm cublaslt " + options);
    CHECK(result.status == 3);
    CHECK_MESSAGE(result.err.find(named) != std::string::npos, result.err);
  };
  refused("--shape 8,40,3 --algorithm 3", "cuBLASLt offers 3 for this product");
  refused("--algorithm all --export a.json", "the arithmetic of one algorithm");
  refused("--sum --shape 8,40 --algorithm 1", "these have products alone");
}
