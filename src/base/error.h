// The exception type of the program lives in kernels/common so that no arrow turns back; src includes it from here.
#pragma once
#include "kernels/common/error.h"
