#pragma once

#include <nlohmann/json.hpp>
#include <string>

/// What a JSON schema has against a document; empty where it satisfies it.
std::string schema_errors(const std::string& schema_file, const nlohmann::json& document);
