#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "soundness/soundness_check.hpp"

namespace driftbound::soundness {

/// The .onnx files of a folder, in alphabetical order.
std::vector<std::filesystem::path> models_in(const std::filesystem::path& folder);

/// Evaluates `samples` inputs drawn from [-1, 1] with one arithmetic and judges every layer output.
void check_model(const std::filesystem::path& file, const ArithmeticModel& arithmetic, std::int64_t samples,
                 std::uint64_t seed, const CheckOptions& options, Tally& tally);

}  // namespace driftbound::soundness
