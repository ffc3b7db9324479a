package compat
import (
 _ "github.com/aws/aws-sdk-go-v2/service/sqs"
 _ "github.com/aws/aws-sdk-go-v2/config"
 _ "github.com/aws/aws-sdk-go-v2/credentials"
 _ "github.com/aws/smithy-go"
)
