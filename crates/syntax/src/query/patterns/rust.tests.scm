(mod_item name: (identifier) @name body: (declaration_list)) @group

; An attribute makes a test by the last part of its path: `test`, `tokio::test`, `test_case`, `quickcheck`.
((attribute_item (attribute [
    (identifier) @attribute
    (scoped_identifier name: (identifier) @attribute)
  ]))
  . [(attribute_item) (line_comment) (block_comment)]*
  . (function_item name: (identifier) @name) @test
  (#match? @attribute "test|case|quickcheck"))

; Under a condition.
((attribute_item (attribute (identifier) @attribute arguments: (token_tree) @arguments))
  . [(attribute_item) (line_comment) (block_comment)]*
  . (function_item name: (identifier) @name) @test
  (#eq? @attribute "cfg_attr")
  (#match? @arguments ",\\s*([A-Za-z0-9_]+::)*[A-Za-z0-9_]*(test|case|quickcheck)[A-Za-z0-9_]*\\s*[,()]"))

; In a macro, such as `proptest!`.
((token_tree
  (token_tree . (identifier) @attribute)
  . "fn"
  . (identifier) @name @test)
  (#match? @attribute "test|case|quickcheck"))

; A test that is to fail.
((attribute_item (attribute (identifier) @mark))
  . [(attribute_item) (line_comment) (block_comment)]*
  . (function_item) @fails
  (#eq? @mark "should_panic"))
