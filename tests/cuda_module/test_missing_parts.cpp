#include <dlfcn.h>
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "support/environment.hpp"
#include "support/run_program.hpp"

namespace {

using driftbound::test::ScopedVariable;

const std::string models = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/";

/// What open_module prints about the CUDA module, in a process of its own.
std::string opened(int ordinal = 0) {
  const driftbound::test::TemporaryFolder folder;
  const std::string command = std::string(DRIFTBOUND_OPEN_MODULE) + " " + DRIFTBOUND_CUDA_MODULE + " " +
                              std::to_string(ordinal) + " >" + folder.file("out");
  if (std::system(command.c_str()) != 0) return "open_module failed";
  return driftbound::test::read_file(folder.file("out"));
}

/// The fake driver is found before any other.
ScopedVariable with_fake_driver() {
  return ScopedVariable("LD_LIBRARY_PATH", DRIFTBOUND_FAKE_DRIVER_FOLDER);
}

bool has_driver() {
  return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

void check_not_available(const std::string& printed, const std::string& sentence) {
  CHECK_MESSAGE(printed.find("1: " + sentence) == 0, printed);
}

}  // namespace

TEST_CASE("without a driver the module says so, and the program ends with exit status 4") {
  if (has_driver()) {
    MESSAGE("skipped: this machine has an NVIDIA driver");
    return;
  }
  check_not_available(opened(), "no NVIDIA driver: libcuda.so.1 was not found\n");
  const ProgramResult result = run_program("report " + models + "mlp_2_10_10_2.onnx --samples 2 --backend cuda");
  CHECK(result.status == 4);
  CHECK_MESSAGE(result.err.find("no NVIDIA driver: libcuda.so.1 was not found") != std::string::npos, result.err);
}

TEST_CASE("a driver that is too old is told to be updated") {
  const ScopedVariable driver = with_fake_driver();
  const ScopedVariable version("FAKE_DRIVER_VERSION", "9020");
  check_not_available(opened(), "the NVIDIA driver supports CUDA 9.2, this module needs ");
  CHECK(opened().find(".0 or newer: update the driver\n") != std::string::npos);
}

TEST_CASE("a driver without a device is told from one that does not start") {
  const ScopedVariable driver = with_fake_driver();
  const std::string none = "there is an NVIDIA driver, but no CUDA device";
  {
    const ScopedVariable count("FAKE_DRIVER_DEVICES", "0");
    check_not_available(opened(), none);
  }
  {
    const ScopedVariable init("FAKE_DRIVER_INIT", "100");
    const ScopedVariable visible("CUDA_VISIBLE_DEVICES", "7");
    check_not_available(opened(), none + " (CUDA_VISIBLE_DEVICES is '7')\n");
  }
  const ScopedVariable init("FAKE_DRIVER_INIT", "999");
  check_not_available(opened(), "the NVIDIA driver does not start: cuInit gives error 999\n");
}

TEST_CASE("a device beyond those that there are is named") {
  const ScopedVariable driver = with_fake_driver();
  check_not_available(opened(3), "there is no CUDA device 3: this machine has 1\n");
  check_not_available(opened(-1), "there is no CUDA device -1: this machine has 1\n");
}

TEST_CASE("without cuBLAS the module says which file it looked for") {
  const ScopedVariable driver = with_fake_driver();
  const std::string variable = " (DRIFTBOUND_CUBLAS can name the file)\n";
  {
    const ScopedVariable file("DRIFTBOUND_CUBLAS", "/nowhere/libcublas.so.13");
    check_not_available(opened(), "no cuBLAS: /nowhere/libcublas.so.13: cannot open shared object file");
    CHECK(opened().find(variable) != std::string::npos);
  }
  const std::string other = std::string(DRIFTBOUND_FAKE_DRIVER_FOLDER) + "/libcuda.so.1";
  const ScopedVariable file("DRIFTBOUND_CUBLAS", other);
  check_not_available(opened(), "no cuBLAS: " + other + " lacks cublasCreate_v2" + variable);
}
