#ifndef DRIFTBOUND_C_STATUS_H
#define DRIFTBOUND_C_STATUS_H

/**
 * How a call from C went. The numbers are the program's exit statuses. No exception leaves the library.
 */

#ifdef __cplusplus
extern "C" {
#endif

typedef enum driftbound_status {
  DRIFTBOUND_OK = 0,
  DRIFTBOUND_NO_TOLERANCE = 1,  /**< driftbound_tolerance(): there is an answer, and `proven` is infinite */
  DRIFTBOUND_NOT_CONFIRMED = 1, /**< driftbound_probe(): there is an answer, and its `verdict` is another one */
  DRIFTBOUND_BAD_INPUT = 3,     /**< driftbound_message() says what is wrong, and what to do */
  DRIFTBOUND_NOT_AVAILABLE = 4, /**< the device has no matrix unit for such operands */
  DRIFTBOUND_OUT_OF_MEMORY = 5,
  DRIFTBOUND_FAILED = 6         /**< a defect of the library; driftbound_message() has what is known */
} driftbound_status;

/** What was wrong with the last call in this thread that failed; empty before. Valid until the next call in this thread. */
const char* driftbound_message(void);

#ifdef __cplusplus
}
#endif

#endif
