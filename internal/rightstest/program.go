package rightstest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/volumekit/volumekit/internal/apicalls"
)

// A Program is a program with its service account on a real API server.
type Program struct {
	*testing.T
	Calls *apicalls.Recorder // of the program
	Roles Roles
	// Review returns the answer of the API server to a review for the service account.
	Review func(attributes *authorizationv1.ResourceAttributes) (allowed bool, err error)
}

// RequireRights requires that a program exercises the rights of its roles, with the others, which each
// service account has, and no further ones, and that the API server denies a call of the program without
// any single one of the rights of its roles. exercise runs the program until it has exercised all of
// them or the missing one; it returns the rights that the program has exercised. With -short no right is
// taken from the program.
func (p *Program) RequireRights(others Rights, exercise func(missing string) Rights) {
	p.Helper()
	p.requireExact(others, exercise)
	if !testing.Short() {
		p.requireEach(exercise)
	}
}

func (p *Program) requireExact(others Rights, exercise func(missing string) Rights) {
	p.Helper()
	all := p.Roles.Granted()
	maps.Copy(all, others)
	p.AwaitGranted()
	require.Equal(p, all, exercise(""))
}

func (p *Program) requireEach(exercise func(missing string) Rights) {
	p.Helper()
	for _, right := range slices.Sorted(maps.Keys(p.Roles.Granted())) {
		restore := p.remove(right)
		require.True(p, exercise(right).IsDenied(right), "the program does not miss the right: %s", right)
		restore()
	}
}

// AwaitGranted waits until the API server grants all rights of the roles. After the creation of a role it denies them
// for a while.
func (p *Program) AwaitGranted() {
	p.Helper()
	for _, role := range p.Roles {
		for right := range role.rights() {
			p.await(role, right, true)
		}
	}
}

// Exercise runs a program until it has exercised all rights of its roles, or the missing one, and
// returns the exercised ones. Meanwhile step is called every 10 ms, and makes the changes that the program reacts to.
// Exercise fails after a minute.
func (p *Program) Exercise(missing string, program func(context.Context) error, step func()) Rights {
	p.Helper()
	p.Calls.Take()
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- program(ctx) }()
	seen, needed := Rights{}, p.Roles.Granted()
	for !seen.IsDenied(missing) && len(seen.Unseen(needed)) > 0 {
		step()
		seen.Add(p.Calls.Take())
		select {
		case err := <-ended:
			require.NoError(p, err)
			require.Fail(p, "the program has ended", "without exercising %q", seen.Unseen(needed))
		case <-ctx.Done():
			require.Fail(p, "a minute has passed", "without exercising %q", seen.Unseen(needed))
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	require.NoError(p, <-ended)
	seen.Add(p.Calls.Take())
	return seen
}

// remove takes a right from the program until restore is called.
func (p *Program) remove(right string) (restore func()) {
	p.Helper()
	roles := p.Roles.with(right)
	store := func(isAllowed bool) {
		for _, role := range roles {
			rules := role.Rules
			if !isAllowed {
				rules = role.without(right)
			}
			require.NoError(p, role.Store(rules))
		}
		for _, role := range roles {
			p.await(role, right, isAllowed)
		}
	}
	store(false)
	return func() { store(true) }
}

// await waits until the API server applies a change of a role.
func (p *Program) await(role *Role, right string, isAllowed bool) {
	p.Helper()
	require.Eventually(p, func() bool {
		allowed, err := p.Review(role.attributes(right))
		return err == nil && allowed == isAllowed
	}, time.Minute, 5*time.Millisecond)
}
