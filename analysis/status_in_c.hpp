#pragma once

#include <string>

#include "driftbound/c/status.h"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {

/// The status of the exception that is being handled; keeps what it says for driftbound_message(). `verb` begins the
/// messages of exceptions that are none of this library.
driftbound_status status_of_exception(const char* verb) noexcept;

/// What a function for C returns: make(*request, answer), which sets *answer; what it throws becomes a status and a
/// message, and *answer is NULL then.
template <class Request, class Answer, class Make>
driftbound_status answered_in_c(const char* verb, const Request* request, const Answer** answer, Make make) noexcept {
  try {
    if (answer == nullptr) throw InvalidArgument(std::string(verb) + ": the place for the answer is NULL");
    *answer = nullptr;
    if (request == nullptr) throw InvalidArgument(std::string(verb) + ": the request is NULL");
    return make(*request, answer);
  } catch (...) {
    return status_of_exception(verb);
  }
}

}  // namespace driftbound::analysis
