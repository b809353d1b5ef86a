//go:build !linux

package hostpath

import "runtime"

func (p *Plugin) walk(name string) (found, error) {
	return found{path: name}, &LinkError{Link: name, Reason: "not followed on " + runtime.GOOS}
}
