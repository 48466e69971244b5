#pragma once

#include <filesystem>
#include <vector>

#include "evaluate/device/interface.h"

namespace driftbound::device {

/// File name of the module that computes on NVIDIA GPUs.
inline constexpr const char* cuda_module_file = "libdriftbound_cuda.so";

/// Where modules are looked for, in this order: the folders of $DRIFTBOUND_PLUGIN_PATH (separated by ':'), then
/// driftbound-modules/ beside the file that contains this library: the shared library, or the program it is part of;
/// and where an installed program has the folder of libraries, in that.
std::vector<std::filesystem::path> module_folders();

/// The functions of the CUDA module in the first folder that has one. A module is loaded once a process and stays.
/// Throws:    NotAvailable: no folder has one, it cannot be loaded, it is no module or one of another interface
const driftbound_device_functions& load_cuda_module(const std::vector<std::filesystem::path>& folders);

}  // namespace driftbound::device
