// scripts/check_gpu.sh, run whole against the double of the CUDA module.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "support/run_program.hpp"

using driftbound::test::read_file;
using driftbound::test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

/// The script on the programs of this build; `variables` as `env` takes them.
ProgramResult check_gpu(const std::string& arguments, const std::string& variables = "") {
  const std::string module = std::string("DRIFTBOUND_PLUGIN_PATH=") + DRIFTBOUND_HOST_MODULE_FOLDER;
  return run_program("--programs " + fs::path(DRIFTBOUND_PROGRAM).parent_path().string() + " " + arguments,
                     "env " + module + " " + variables + " ", DRIFTBOUND_SOURCE_DIR "/scripts/check_gpu.sh");
}

std::string small_run(const TemporaryFolder& folder) {
  return "--out " + folder.file("out") +
         " --networks mlp_2_10_10_2 --samples 40 --rows 5 --batches 1,40 --quick --time-limit 300";
}

std::ptrdiff_t count(const std::string& text, const std::string& part) {
  std::ptrdiff_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("check_gpu passes on the double: every mode recorded, compared and judged, results in few small files" *
          doctest::test_suite("campaign")) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "out");
  folder.write("out/traces-4.tar", "of an earlier run");
  const ProgramResult result = check_gpu(small_run(folder));
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.status == 0);
  const std::string table = read_file(folder / "out/table.txt");
  CAPTURE(table);
  CHECK(count(table, "  pass\n") == 24);  // 12 modes, 2 batch sizes
  CHECK(count(table, " HOLDS") == 19);    // the largest batch, and batch 1 of the 7 modes of cuBLAS
  CHECK(count(table, ".b1 ") == 7);
  CHECK(result.out.find("tf32 in order unknown") != std::string::npos);
  CHECK(result.out.find("FAST_TF32 reads ") != std::string::npos);
  CHECK(read_file(folder / "out/test_gpu.log").find("SUCCESS") != std::string::npos);
  CHECK(!fs::exists(folder / "out/build.log"));
  CHECK(count(read_file(folder / "out/bench.jsonl"), "\"bench\":\"gpu\"") == 2);
  CHECK(fs::exists(folder / "out/traces-1.tar"));
  CHECK(!fs::exists(folder / "out/traces-4.tar"));
  std::ptrdiff_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "out")) {
    ++files;
    CHECK(entry.file_size() < std::uintmax_t{16} << 20);
  }
  CHECK(files <= 8);
}

TEST_CASE("check_gpu runs the parts that are named alone") {
  const TemporaryFolder folder;
  const ProgramResult bench = check_gpu(small_run(folder) + " --only bench");
  CAPTURE(bench.out);
  CHECK(bench.status == 0);
  CHECK(count(read_file(folder / "out/bench.jsonl"), "\"bench\":\"gpu\"") == 2);
  CHECK(!fs::exists(folder / "out/table.txt"));
  CHECK(!fs::exists(folder / "out/test_gpu.log"));
  const ProgramResult probe = check_gpu(small_run(folder) + " --only probe");
  CAPTURE(probe.out);
  CHECK(probe.status == 0);
  CHECK(count(probe.out, "AS DECLARED") == 4);  // the ordered product
  CHECK(count(probe.out, "FOUND") == 5);
  CHECK(probe.out.find("tf32 cublas 16,40,16: ") != std::string::npos);
  const ProgramResult products =
      check_gpu(small_run(folder) + " --only products --products 64,100 --modes tf32-cublas");
  CAPTURE(products.out);
  CHECK(products.status == 0);
  CHECK(products.out.find("products: 4 of 4 traces explained") != std::string::npos);
  CHECK(count(products.out, "tf32 unit, block 8, F 25, in one chain of steps") == 4);
  CHECK(fs::exists(folder / "out/traces-1.tar"));
  CHECK(check_gpu(small_run(folder) + " --only products --products 64,").status == 3);
  const ProgramResult algorithms = check_gpu(small_run(folder) + " --only algorithms");
  CAPTURE(algorithms.out);
  CHECK(algorithms.status == 0);
  CHECK(count(algorithms.out, "FOUND") == 12);  // 3 algorithms in 4 arithmetics
  CHECK(count(algorithms.out, "cuBLASLt offers 3 for this product") == 4);
  CHECK(algorithms.out.find("tf32 cublaslt 16,40,16 1: ") != std::string::npos);
  CHECK(algorithms.out.find("algorithms: 12 runs recorded") != std::string::npos);
  CHECK(count(algorithms.out, "tf32 unit, block 8, F 25, K in 2 slices of 32 added one after the other") == 1);
  CHECK(fs::exists(folder / "out/traces-1.tar"));
  const ProgramResult wrong = check_gpu(small_run(folder) + " --only benches");
  CHECK(wrong.status == 3);
  CHECK(wrong.err.find("no part 'benches'") != std::string::npos);
}

TEST_CASE("check_gpu finds a device that capture disturbs, shows tests that fail, and names mode and network" *
          doctest::test_suite("campaign")) {
  const TemporaryFolder folder;
  const ProgramResult result =
      check_gpu(small_run(folder) + " --modes fp32-ordered",
                "DRIFTBOUND_HOST_MODULE_DISTURB=1 DRIFTBOUND_HOST_MODULE_MEMORY=33554432");  // a test takes more
  CAPTURE(result.out);
  CHECK(result.status == 1);
  CHECK(result.out.find("FAILED") != std::string::npos);
  CHECK(read_file(folder / "out/table.txt").find("FAIL") != std::string::npos);
  for (const std::string& text : {result.out, read_file(folder / "out/test_gpu.log")}) {
    CHECK(text.find("TEST CASE:  allocated memory is no longer free") != std::string::npos);
    CHECK(text.find("ERROR: test case THREW exception") != std::string::npos);
  }
}

TEST_CASE("check_gpu judges the traces of the largest batch, wherever the list has it" *
          doctest::test_suite("campaign")) {
  const TemporaryFolder folder;
  const ProgramResult result = check_gpu(small_run(folder) + " --modes fp32-ordered --batches 9,40,10");
  CAPTURE(result.out);
  CHECK(result.status == 0);
  const std::string table = read_file(folder / "out/table.txt");
  CAPTURE(table);
  CHECK(count(table, ".b40 ") == 1);
  CHECK(count(table, " HOLDS") == 1);
}

TEST_CASE("check_gpu without a usable GPU is one sentence and status 4") {
  const TemporaryFolder folder;
  const ProgramResult result =
      check_gpu(small_run(folder), "DRIFTBOUND_HOST_MODULE_UNAVAILABLE='no NVIDIA driver: none here'");
  CHECK(result.status == 4);
  CHECK(result.err == "check_gpu: no CUDA device can be used: no NVIDIA driver: none here\n");
}

TEST_CASE("check_gpu leaves out what the time limit does not allow, and does not pass") {
  const TemporaryFolder folder;
  const ProgramResult result = check_gpu(small_run(folder) + " --time-limit 1");
  CHECK(result.status == 1);
  CHECK(result.out.find("time limit of 1 s") != std::string::npos);
}

TEST_CASE("check_gpu refuses what it does not know with status 3") {
  for (const char* arguments : {"--nonsense", "--networks nonesuch", "--rows 0", "--samples many", "--out"}) {
    CAPTURE(arguments);
    const ProgramResult result = check_gpu(arguments);
    CHECK(result.status == 3);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("check_gpu refuses a mode that there is not with status 3" * doctest::test_suite("campaign")) {
  const TemporaryFolder folder;
  CHECK(check_gpu(small_run(folder) + " --modes fp12").status == 3);
}
