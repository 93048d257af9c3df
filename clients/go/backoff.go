package encke

import (
	"context"
	"math/rand/v2"
	"time"
)

// What the tests take chance and time from instead.
var (
	// chance is a number from 0 to below 1.
	chance = rand.Float64
	pause  = wait
)

// backoff is a time before the attempt after so many failed ones: exponential, with full jitter,
// since a random time below a ceiling that doubles spreads a crowd that lost its server at one
// moment. What the server asks for comes on top, and spreads over as long again.
func backoff(tries int, first, most, asked time.Duration) time.Duration {
	asked = min(asked, listenAskedMost)
	ceiling := most
	if tries < 32 {
		ceiling = min(most, max(asked, first<<tries))
	}
	return asked + time.Duration(chance()*float64(ceiling))
}

// wait returns early, and says why, if ctx ends.
func wait(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
