package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/abreast"
)

func TestParse(t *testing.T) {
	tests := []struct {
		args []string
		want []abreast.Task
	}{
		{nil, nil},
		{[]string{"a", "b"}, nil},
		{[]string{"a", "--"}, nil},
		{[]string{"--", "x"}, nil},
		{[]string{"a", "b", "--", "x", "-{}={}", "--"}, []abreast.Task{
			{Title: "a", Args: []string{"x", "-a=a", "--"}},
			{Title: "b", Args: []string{"x", "-b=b", "--"}},
		}},
	}
	for _, test := range tests {
		require.Equal(t, test.want, parse(test.args), test.args)
	}
}

func TestExitCode(t *testing.T) {
	require.Equal(t, 1, exitCode(errors.New("any")))
}
