// Package compat holds the suite of the AWS SDK for Go v2; see its tests.
package compat
