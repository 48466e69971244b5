#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace driftbound::cli {

/// Checks that no output would replace an input or another output. Empty names and "-" are skipped.
/// Throws:    InvalidArgument naming the file
void require_distinct(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

/// Throws:    FileError where standard output did not take everything
void flush_output();

/// Writes a text file whole or not at all.
/// Throws:    FileError
void write_whole(const std::filesystem::path& file, const std::string& text);

/// What a symbolic link to a file, or to none yet, stands for: a file renamed over the link would replace it.
std::filesystem::path target_of(const std::filesystem::path& file);

/// Checks early that a file can be written where asked, so that no work is lost.
void require_writable(const std::filesystem::path& file);

/// Refuses a name that says another format than that of tensors, which traces and references are written in.
/// Throws:    InvalidArgument
void require_tensor_file(const std::string& file, const char* option);

}  // namespace driftbound::cli
