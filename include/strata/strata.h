// Everything.
#pragma once

#include <strata/bytes.h>
#include <strata/communicator.h>
#include <strata/device.h>
#include <strata/dtype.h>
#include <strata/engine.h>
#include <strata/error.h>
#include <strata/event.h>
#include <strata/lease.h>
#include <strata/optimizer.h>
#include <strata/options.h>
#include <strata/plan.h>
#include <strata/rendezvous.h>
#include <strata/tier.h>
#include <strata/unit.h>
