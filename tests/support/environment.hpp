#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace driftbound::test {

/// A variable of the environment, set in a scope and put back at its end.
class ScopedVariable {
public:
  ScopedVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~ScopedVariable() { before_ ? ::setenv(name_.c_str(), before_->c_str(), 1) : ::unsetenv(name_.c_str()); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

private:
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace driftbound::test
