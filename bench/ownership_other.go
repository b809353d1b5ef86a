//go:build !linux

package main

import "context"

func measureOwnership(context.Context, string) error { return nil }
